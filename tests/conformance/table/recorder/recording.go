// Copied into upstream's package of shared allocator tests by record.py, together with errorkinds.go of the harness;
// upstream's runner of the table then calls recordTestCase after each call of Allocate.

package allocatortesting

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/utils/ptr"
)

type recordedCase struct {
	Name           string                       `json:"name"`
	Implementation string                       `json:"implementation"`
	Features       Features                     `json:"features"`
	Node           *v1.Node                     `json:"node"`
	Classes        []*resourceapi.DeviceClass   `json:"classes"`
	Slices         []*resourceapi.ResourceSlice `json:"slices"`
	Claims         []wrapResourceClaim          `json:"claims"`
	State          recordedState                `json:"state"`
	Upstream       recordedAnswer               `json:"upstream"`
}

// recordedState is all of upstream's allocated state, as sorted lists.
type recordedState struct {
	// driver/pool/device
	Devices []string `json:"devices"`
	// driver/pool/device/share id
	Shares []string `json:"shares"`
	// by driver/pool/device
	Capacity map[string]ConsumedCapacity `json:"capacity"`
}

type recordedAnswer struct {
	Impl    string         `json:"impl"`
	Results []recordedNode `json:"results"`
}

type recordedNode struct {
	Node string `json:"node"`
	// feasible, infeasible or error
	Verdict       string                         `json:"verdict"`
	Allocation    []resourceapi.AllocationResult `json:"allocation,omitempty"`
	Error         string                         `json:"error,omitempty"`
	ErrorKind     string                         `json:"errorKind,omitempty"`
	NodeOnlyError bool                           `json:"nodeOnlyError,omitempty"`
	Steps         int64                          `json:"steps"`
}

// recordTestCase appends one line to the file $CLAIMSMITH_TABLE. The implementation is the one that the tests of
// $CLAIMSMITH_RUN ask, or "selected" when the gates select it. Upstream's own expectations are checked after this.
func recordTestCase(t *testing.T, name string, tc *AllocatorTestCase, allocator Allocator, results []resourceapi.AllocationResult, err error) {
	numberShares(results)
	run := os.Getenv("CLAIMSMITH_RUN")
	recorded := recordedCase{
		Name: name + "/" + run, Implementation: run, Features: tc.features, Node: tc.node, Classes: tc.classes, Slices: tc.slices,
		Claims: tc.claimsToAllocate, State: stateOf(tc),
		Upstream: recordedAnswer{Impl: string(allocator.Channel()), Results: []recordedNode{nodeOf(tc, allocator, results, err)}},
	}
	makeExact(t, reflect.ValueOf(&recorded))
	line, failure := json.Marshal(recorded)
	if failure != nil {
		t.Fatalf("record %s: %v", name, failure)
	}
	file, failure := os.OpenFile(os.Getenv("CLAIMSMITH_TABLE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if failure != nil {
		t.Fatalf("record %s: %v", name, failure)
	}
	defer file.Close()
	if _, failure := file.Write(append(line, '\n')); failure != nil {
		t.Fatalf("record %s: %v", name, failure)
	}
}

func nodeOf(tc *AllocatorTestCase, allocator Allocator, results []resourceapi.AllocationResult, err error) recordedNode {
	found := recordedNode{Node: tc.node.Name, Verdict: "feasible"}
	if counting, ok := allocator.(internal.AllocatorExtended); ok {
		found.Steps = counting.GetStats().NumAllocateOneInvocations
	}
	switch {
	case err != nil:
		found.Verdict, found.Error, found.ErrorKind = "error", err.Error(), errorKind(err)
		found.NodeOnlyError = errors.Is(err, internal.ErrFailedAllocationOnNode)
	case len(results) != len(tc.claimsToAllocate):
		found.Verdict = "infeasible"
	default:
		found.Allocation = results
	}
	return found
}

func stateOf(tc *AllocatorTestCase) recordedState {
	state := recordedState{Devices: []string{}, Shares: []string{}, Capacity: map[string]ConsumedCapacity{}}
	for _, device := range tc.allocatedDevices {
		state.Devices = append(state.Devices, device.String())
	}
	for _, share := range slices.Collect(maps.Keys(tc.allocatedSharedDeviceIDs)) {
		state.Shares = append(state.Shares, share.String())
	}
	slices.Sort(state.Shares)
	for device, capacity := range tc.allocatedCapacityDevices {
		state.Capacity[device.String()] = capacity
	}
	return state
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// makeExact lets every quantity below a value print as what it is: upstream drops suffixes beyond exa, so that 1e21
// would be written as 1. Objects that others hold are not touched; pointers, lists and maps are replaced on the way.
func makeExact(t *testing.T, value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return
		}
		if value.CanSet() {
			copied := reflect.New(value.Type().Elem())
			copied.Elem().Set(value.Elem())
			value.Set(copied)
		}
		makeExact(t, value.Elem())
	case reflect.Slice:
		if value.IsNil() {
			return
		}
		copied := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
		reflect.Copy(copied, value)
		value.Set(copied)
		for i := range value.Len() {
			makeExact(t, value.Index(i))
		}
	case reflect.Map:
		if value.IsNil() {
			return
		}
		copied := reflect.MakeMap(value.Type())
		for _, key := range value.MapKeys() {
			entry := reflect.New(value.Type().Elem()).Elem()
			entry.Set(value.MapIndex(key))
			makeExact(t, entry)
			copied.SetMapIndex(key, entry)
		}
		value.Set(copied)
	case reflect.Struct:
		if value.Type() == quantityType {
			value.Set(reflect.ValueOf(exact(t, value.Interface().(resource.Quantity))))
			return
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				makeExact(t, value.Field(i))
			}
		}
	}
}

// exact returns the quantity, with an exponent instead of a suffix if its own text means something else.
func exact(t *testing.T, quantity resource.Quantity) resource.Quantity {
	if survives(quantity) {
		return quantity
	}
	decimal := quantity.DeepCopy()
	rewritten := *resource.NewDecimalQuantity(*decimal.AsDec(), resource.DecimalExponent)
	if !survives(rewritten) {
		t.Fatalf("record: %s can't be written", quantity.AsDec())
	}
	return rewritten
}

func survives(quantity resource.Quantity) bool {
	quantity = quantity.DeepCopy()
	read, err := resource.ParseQuantity(quantity.String())
	return err == nil && read.Cmp(quantity) == 0
}

// numberShares replaces random share ids, so that answers can be compared.
func numberShares(results []resourceapi.AllocationResult) {
	number := 0
	for i := range results {
		for j := range results[i].Devices.Results {
			if device := &results[i].Devices.Results[j]; device.ShareID != nil {
				number++
				device.ShareID = ptr.To(apitypes.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", number)))
			}
		}
	}
}
