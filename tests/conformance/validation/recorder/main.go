// Reads lines {"kind", "obj", "old"} and answers each with what the API server's own validation says:
// {"errors": [[type, field], ...]}. Hand-written and declarative rules, alpha gates of DRA and of groups on.
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
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/resource"
	v1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/v1alpha3"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	groups "k8s.io/kubernetes/pkg/apis/scheduling/v1beta1"
	groupvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
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

func template(text []byte) (resourcev1.ResourceClaimTemplate, resource.ResourceClaimTemplate) {
	var served resourcev1.ResourceClaimTemplate
	var internal resource.ResourceClaimTemplate
	must(json.Unmarshal(text, &served))
	v1.SetObjectDefaults_ResourceClaimTemplate(&served)
	must(v1.Convert_v1_ResourceClaimTemplate_To_resource_ResourceClaimTemplate(&served, &internal, nil))
	return served, internal
}

func rule(text []byte) (resourcev1.DeviceTaintRule, resource.DeviceTaintRule) {
	var served resourcev1.DeviceTaintRule
	var internal resource.DeviceTaintRule
	must(json.Unmarshal(text, &served))
	v1.SetObjectDefaults_DeviceTaintRule(&served)
	must(v1.Convert_v1_DeviceTaintRule_To_resource_DeviceTaintRule(&served, &internal, nil))
	return served, internal
}

func poolRequest(text []byte) (resourcev1alpha3.ResourcePoolStatusRequest, resource.ResourcePoolStatusRequest) {
	var served resourcev1alpha3.ResourcePoolStatusRequest
	var internal resource.ResourcePoolStatusRequest
	must(json.Unmarshal(text, &served))
	v1alpha3.SetObjectDefaults_ResourcePoolStatusRequest(&served)
	must(v1alpha3.Convert_v1alpha3_ResourcePoolStatusRequest_To_resource_ResourcePoolStatusRequest(&served, &internal, nil))
	return served, internal
}

func group(text []byte) (schedulingv1beta1.PodGroup, scheduling.PodGroup) {
	var served schedulingv1beta1.PodGroup
	var internal scheduling.PodGroup
	must(json.Unmarshal(text, &served))
	groups.SetObjectDefaults_PodGroup(&served)
	must(groups.Convert_v1beta1_PodGroup_To_scheduling_PodGroup(&served, &internal, nil))
	return served, internal
}

func workload(text []byte) (schedulingv1beta1.Workload, scheduling.Workload) {
	var served schedulingv1beta1.Workload
	var internal scheduling.Workload
	must(json.Unmarshal(text, &served))
	must(groups.Convert_v1beta1_Workload_To_scheduling_Workload(&served, &internal, nil))
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
	case "template":
		served, internal := template(q.Obj)
		return append(validation.ValidateResourceClaimTemplate(&internal), v1.Validate_ResourceClaimTemplate(ctx, create, nil, &served, nil)...)
	case "rule":
		served, internal := rule(q.Obj)
		return append(validation.ValidateDeviceTaintRule(&internal), v1.Validate_DeviceTaintRule(ctx, create, nil, &served, nil)...)
	case "rule-update":
		served, internal := rule(q.Obj)
		oldServed, oldInternal := rule(q.Old)
		return append(validation.ValidateDeviceTaintRuleUpdate(&internal, &oldInternal), v1.Validate_DeviceTaintRule(ctx, update, nil, &served, &oldServed)...)
	case "rule-status":
		served, internal := rule(q.Obj)
		oldServed, oldInternal := rule(q.Old)
		return append(validation.ValidateDeviceTaintRuleStatusUpdate(&internal, &oldInternal), v1.Validate_DeviceTaintRule(ctx, status, nil, &served, &oldServed)...)
	case "pool":
		served, internal := poolRequest(q.Obj)
		return append(validation.ValidateResourcePoolStatusRequest(&internal), v1alpha3.Validate_ResourcePoolStatusRequest(ctx, create, nil, &served, nil)...)
	case "pool-update":
		served, internal := poolRequest(q.Obj)
		oldServed, oldInternal := poolRequest(q.Old)
		return append(validation.ValidateResourcePoolStatusRequestUpdate(&internal, &oldInternal), v1alpha3.Validate_ResourcePoolStatusRequest(ctx, update, nil, &served, &oldServed)...)
	case "pool-status":
		served, internal := poolRequest(q.Obj)
		oldServed, oldInternal := poolRequest(q.Old)
		return append(validation.ValidateResourcePoolStatusRequestStatusUpdate(&internal, &oldInternal), v1alpha3.Validate_ResourcePoolStatusRequest(ctx, status, nil, &served, &oldServed)...)
	case "group":
		served, internal := group(q.Obj)
		return append(groupvalidation.ValidatePodGroup(&internal), groups.Validate_PodGroup(ctx, create, nil, &served, nil)...)
	case "group-update":
		served, internal := group(q.Obj)
		oldServed, oldInternal := group(q.Old)
		return append(groupvalidation.ValidatePodGroupUpdate(&internal, &oldInternal), groups.Validate_PodGroup(ctx, update, nil, &served, &oldServed)...)
	case "group-status":
		served, internal := group(q.Obj)
		oldServed, oldInternal := group(q.Old)
		return append(groupvalidation.ValidatePodGroupStatusUpdate(&internal, &oldInternal), groups.Validate_PodGroup(ctx, status, nil, &served, &oldServed)...)
	case "workload":
		served, internal := workload(q.Obj)
		return append(groupvalidation.ValidateWorkload(&internal), groups.Validate_Workload(ctx, create, nil, &served, nil)...)
	case "workload-update":
		served, internal := workload(q.Obj)
		oldServed, oldInternal := workload(q.Old)
		return append(groupvalidation.ValidateWorkloadUpdate(&internal, &oldInternal), groups.Validate_Workload(ctx, update, nil, &served, &oldServed)...)
	}
	panic("unknown kind " + q.Kind)
}

func main() {
	wanted := map[string]bool{}
	for _, gate := range []string{"DRAListTypeAttributes", "DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRANodeAllocatableResources", "DRAOptionalNodeOperations", "DRAPartitionableDevicesType", "DRAResourcePoolStatus", "GenericWorkload", "TopologyAwareWorkloadScheduling", "DRAWorkloadResourceClaims", "PodGroupPreemptionPolicy", "CompositePodGroup"} {
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
