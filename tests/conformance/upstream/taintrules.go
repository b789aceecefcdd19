package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// mergeTaintRules lets upstream's tracker apply the rules; the slices keep their order.
func mergeTaintRules(
	ctx context.Context, slices []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule,
) ([]*resourceapi.ResourceSlice, error) {
	if len(rules) == 0 {
		return slices, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var objects []runtime.Object
	for _, slice := range slices {
		objects = append(objects, slice)
	}
	for _, rule := range rules {
		objects = append(objects, rule)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	api := factory.Resource().V1()
	merged, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, SliceInformer: api.ResourceSlices(), TaintInformer: api.DeviceTaintRules(),
	})
	if err != nil {
		return nil, fmt.Errorf("taint rules: %w", err)
	}
	defer merged.Stop()
	factory.Start(ctx.Done())
	<-merged.HasSyncedChecker().Done()
	return inOrder(slices, merged)
}

func inOrder(slices []*resourceapi.ResourceSlice, merged *tracker.Tracker) ([]*resourceapi.ResourceSlice, error) {
	patched, err := merged.ListPatchedResourceSlices()
	if err != nil {
		return nil, fmt.Errorf("taint rules: %w", err)
	}
	byName := map[string]*resourceapi.ResourceSlice{}
	for _, slice := range patched {
		byName[slice.Name] = slice
	}
	ordered := make([]*resourceapi.ResourceSlice, 0, len(slices))
	for _, slice := range slices {
		if byName[slice.Name] == nil {
			return nil, fmt.Errorf("taint rules: slice %s is lost", slice.Name)
		}
		ordered = append(ordered, byName[slice.Name])
	}
	return ordered, nil
}
