package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// cachedPrograms is large, so that no time is lost with compiling; upstream's scheduler keeps 10.
const cachedPrograms = 5000

// defaultTimeout bounds the search on one node, as upstream's scheduler does.
const defaultTimeout = 10 * time.Second

type problem struct {
	Name            string                         `json:"name"`
	Features        json.RawMessage                `json:"features"`
	Node            *v1.Node                       `json:"node"`
	Nodes           []*v1.Node                     `json:"nodes"`
	Classes         classes                        `json:"classes"`
	Slices          []*resourceapi.ResourceSlice   `json:"slices"`
	TaintRules      []*resourceapi.DeviceTaintRule `json:"taintRules"`
	AllocatedClaims []*resourceapi.ResourceClaim   `json:"allocatedClaims"`
	Claims          []*resourceapi.ResourceClaim   `json:"claims"`
	// How many selectors are kept compiled; 0: so many that no time is lost with compiling.
	CachedPrograms int `json:"cachedPrograms"`
	// Bounds of the search on one node, in milliseconds and in steps; steps end it at the same place every time.
	TimeoutMs int64 `json:"timeoutMs"`
	StepsMax  int64 `json:"stepsMax"`
}

type solution struct {
	Impl    string         `json:"impl"`
	Results []nodeSolution `json:"results"`
}

type nodeSolution struct {
	Node string `json:"node"`
	// feasible, infeasible, error or timeout
	Verdict    string                         `json:"verdict"`
	Allocation []resourceapi.AllocationResult `json:"allocation,omitempty"`
	Error      string                         `json:"error,omitempty"`
	ErrorKind  string                         `json:"errorKind,omitempty"`
	// The error rules out this node alone.
	NodeOnlyError bool  `json:"nodeOnlyError,omitempty"`
	Steps         int64 `json:"steps"`
	// Processor time, so that other load on the machine matters little.
	Micros float64 `json:"micros"`
}

// allocate asks upstream about each node on its own.
func allocate(p *problem) (*solution, error) {
	ctx := context.Background()
	features, err := parseFeatures(p.Features)
	if err != nil {
		return nil, err
	}
	slices, err := mergeTaintRules(ctx, p.Slices, p.TaintRules)
	if err != nil {
		return nil, err
	}
	state := gatherState(p.AllocatedClaims, features.ConsumableCapacity)
	allocator, err := structured.NewAllocator(ctx, features, *state, p.Classes, slices, celCache(features, p.CachedPrograms))
	if err != nil {
		return nil, err
	}
	timeout := defaultTimeout
	if p.TimeoutMs > 0 {
		timeout = time.Duration(p.TimeoutMs) * time.Millisecond
	}
	nodes := p.Nodes
	if p.Node != nil {
		nodes = append([]*v1.Node{p.Node}, nodes...)
	}
	found := &solution{Impl: implementation(allocator)}
	for _, node := range nodes {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		if p.StepsMax > 0 {
			bounded = &stepsContext{Context: bounded, left: p.StepsMax}
		}
		found.Results = append(found.Results, allocateOnNode(bounded, allocator, node, p.Claims))
		cancel()
	}
	return found, nil
}

func allocateOnNode(
	ctx context.Context, allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim,
) nodeSolution {
	stepsBefore, start := steps(allocator), processorTime()
	results, err := guarded(func() ([]resourceapi.AllocationResult, error) { return allocator.Allocate(ctx, node, claims) })
	found := nodeSolution{
		Node: node.Name, Verdict: "feasible", Steps: steps(allocator) - stepsBefore, Micros: float64(processorTime()-start) / float64(time.Microsecond),
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		found.Verdict = "timeout"
	case err != nil:
		found.Verdict, found.Error, found.ErrorKind = "error", err.Error(), errorKind(err)
		found.NodeOnlyError = errors.Is(err, structured.ErrFailedAllocationOnNode)
	case len(results) != len(claims):
		found.Verdict = "infeasible"
	default:
		numberShares(results)
		found.Allocation = results
	}
	return found
}

// stepsContext ends after as many looks at it: the allocator takes one in each step.
type stepsContext struct {
	context.Context
	left int64
}

func (c *stepsContext) Err() error {
	if c.left <= 0 {
		return context.DeadlineExceeded
	}
	c.left--
	return c.Context.Err()
}

// guarded turns a panic into an error, so that one bad problem ends nothing but itself.
func guarded[T any](call func() (T, error)) (result T, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return call()
}

// implementation names the one of upstream's implementations that answers.
func implementation(allocator structured.Allocator) string {
	return path.Base(reflect.TypeOf(allocator).Elem().PkgPath())
}

// steps returns how often the allocator has gone one device further.
func steps(allocator structured.Allocator) int64 {
	stats := reflect.ValueOf(allocator).MethodByName("GetStats").Call(nil)[0]
	return stats.FieldByName("NumAllocateOneInvocations").Int()
}

// gatherState sums up what claims hold, as the scheduler's claim tracker does.
func gatherState(claims []*resourceapi.ResourceClaim, consumableCapacity bool) *structured.AllocatedState {
	state := &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case ptr.Deref(result.AdminAccess, false):
			case consumableCapacity && result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
				if result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(device)
			}
		}
	}
	return state
}

// numberShares replaces random share ids, so that answers can be compared.
func numberShares(results []resourceapi.AllocationResult) {
	number := 0
	for i := range results {
		for j := range results[i].Devices.Results {
			if device := &results[i].Devices.Results[j]; device.ShareID != nil {
				number++
				device.ShareID = ptr.To(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", number)))
			}
		}
	}
}

// classes are a lister of device classes.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

var celCaches = map[cel.Features]*cel.Cache{}

// celCache returns the cache that all problems share, or one of a size of its own.
func celCache(features structured.Features, size int) *cel.Cache {
	key := celFeatures(features)
	if size > 0 {
		return cel.NewCache(size, key)
	}
	if celCaches[key] == nil {
		celCaches[key] = cel.NewCache(cachedPrograms, key)
	}
	return celCaches[key]
}
