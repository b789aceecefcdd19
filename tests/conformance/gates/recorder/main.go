// Prints, as one JSON object by release, which of the allocator's features the scheduler of that release has on when
// nobody sets a gate: upstream's gates emulate the release, and the scheduler's own code makes features of them.
//
// Build it with the modules of k8s.io/kubernetes v1.37.2 (see go.mod): GOFLAGS=-mod=mod go build -o recorder .
package main

import (
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/structured"
	_ "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// releases have the version that a stock cluster of them must stay compatible with: the one before, so that it can be
// rolled back. "1.37 without rollback" is one whose operator has raised that version.
var releases = map[string][2]string{
	"1.34":                  {"1.34", "1.33"},
	"1.35":                  {"1.35", "1.34"},
	"1.36":                  {"1.36", "1.35"},
	"1.37":                  {"1.37", "1.36"},
	"1.37 without rollback": {"1.37", "1.37"},
}

func main() {
	found := map[string]structured.Features{}
	for release, versions := range releases {
		gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		err := gates.SetEmulationVersionAndMinCompatibilityVersion(version.MustParse(versions[0]), version.MustParse(versions[1]))
		if err != nil {
			panic(err)
		}
		found[release] = dynamicresources.AllocatorFeatures(feature.NewSchedulerFeaturesFromGates(gates))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(found); err != nil {
		panic(err)
	}
}
