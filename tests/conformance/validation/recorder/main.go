// Reads lines {"kind", "obj", "old"} and answers each with what the API server's own validation says:
// {"errors": [[type, field], ...]}. Hand-written and declarative rules, alpha gates of DRA on.
//
// Build it with the modules of k8s.io/kubernetes v1.37.2 (see go.mod): GOFLAGS=-mod=mod go build -o recorder .
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/resource"
	v1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	_ "k8s.io/kubernetes/pkg/features"
)

type question struct {
	Kind string          `json:"kind"`
	Obj  json.RawMessage `json:"obj"`
	Old  json.RawMessage `json:"old"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func claim(text []byte) (resourcev1.ResourceClaim, resource.ResourceClaim) {
	var served resourcev1.ResourceClaim
	var internal resource.ResourceClaim
	must(json.Unmarshal(text, &served))
	v1.SetObjectDefaults_ResourceClaim(&served)
	must(v1.Convert_v1_ResourceClaim_To_resource_ResourceClaim(&served, &internal, nil))
	return served, internal
}

func slice(text []byte) (resourcev1.ResourceSlice, resource.ResourceSlice) {
	var served resourcev1.ResourceSlice
	var internal resource.ResourceSlice
	must(json.Unmarshal(text, &served))
	v1.SetObjectDefaults_ResourceSlice(&served)
	must(v1.Convert_v1_ResourceSlice_To_resource_ResourceSlice(&served, &internal, nil))
	return served, internal
}

func class(text []byte) (resourcev1.DeviceClass, resource.DeviceClass) {
	var served resourcev1.DeviceClass
	var internal resource.DeviceClass
	must(json.Unmarshal(text, &served))
	must(v1.Convert_v1_DeviceClass_To_resource_DeviceClass(&served, &internal, nil))
	return served, internal
}

func judge(q question, gates map[string]bool) field.ErrorList {
	ctx := context.Background()
	create := operation.Operation{Type: operation.Create, Options: gates}
	update := operation.Operation{Type: operation.Update, Options: gates}
	status := update
	status.Request = operation.Request{Subresources: []string{"status"}}
	switch q.Kind {
	case "slice":
		served, internal := slice(q.Obj)
		return append(validation.ValidateResourceSlice(&internal), v1.Validate_ResourceSlice(ctx, create, nil, &served, nil)...)
	case "slice-update":
		served, internal := slice(q.Obj)
		oldServed, oldInternal := slice(q.Old)
		return append(validation.ValidateResourceSliceUpdate(&internal, &oldInternal), v1.Validate_ResourceSlice(ctx, update, nil, &served, &oldServed)...)
	case "claim":
		served, internal := claim(q.Obj)
		return append(validation.ValidateResourceClaim(&internal), v1.Validate_ResourceClaim(ctx, create, nil, &served, nil)...)
	case "claim-status":
		served, internal := claim(q.Obj)
		oldServed, oldInternal := claim(q.Old)
		return append(validation.ValidateResourceClaimStatusUpdate(&internal, &oldInternal), v1.Validate_ResourceClaim(ctx, status, nil, &served, &oldServed)...)
	case "class":
		served, internal := class(q.Obj)
		return append(validation.ValidateDeviceClass(&internal), v1.Validate_DeviceClass(ctx, create, nil, &served, nil)...)
	}
	panic("unknown kind " + q.Kind)
}

func main() {
	wanted := map[string]bool{}
	for _, gate := range []string{"DRAListTypeAttributes", "DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRANodeAllocatableResources", "DRAOptionalNodeOperations", "DRAPartitionableDevicesType", "DRAResourcePoolStatus"} {
		wanted[gate] = true
	}
	must(utilfeature.DefaultMutableFeatureGate.SetFromMap(wanted))
	gates := map[string]bool{}
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		gates[string(gate)] = utilfeature.DefaultFeatureGate.Enabled(gate)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var q question
		must(json.Unmarshal(lines.Bytes(), &q))
		found := [][2]string{}
		for _, e := range judge(q, gates) {
			// An update without a resourceVersion is refused elsewhere.
			if e.Field != "metadata.resourceVersion" {
				found = append(found, [2]string{string(e.Type), e.Field})
			}
		}
		answer, err := json.Marshal(map[string]any{"errors": found})
		must(err)
		fmt.Fprintln(out, string(answer))
	}
}
