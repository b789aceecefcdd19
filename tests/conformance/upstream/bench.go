package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// workload is an expression to be evaluated on every device, all of them some times over.
type workload struct {
	Name       string                `json:"name"`
	Features   json.RawMessage       `json:"features"`
	Expression string                `json:"expression"`
	Driver     string                `json:"driver"`
	Devices    []*resourceapi.Device `json:"devices"`
	Repeats    int                   `json:"repeats"`
}

// timing holds processor time for each evaluation in the fastest repeat, in nanoseconds.
type timing struct {
	Matching int `json:"matching"`
	// On devices whose variables were made before, with the cost limit on.
	Prepared float64 `json:"prepared"`
	// As the scheduler does it, which makes the variables each time.
	Scheduler float64 `json:"scheduler"`
}

// measure evaluates an expression on devices that were decoded before the clock starts.
func measure(w *workload) (*timing, error) {
	features, err := parseFeatures(w.Features)
	if err != nil {
		return nil, err
	}
	compiled := cel.GetCompiler(celFeatures(features)).CompileCELExpression(w.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return nil, compiled.Error
	}
	var devices []cel.Device
	var variables []map[string]any
	for _, device := range w.Devices {
		devices = append(devices, cel.Device{
			Driver: w.Driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes: device.Attributes, Capacity: device.Capacity,
		})
		prepared, err := prepare(w.Driver, device)
		if err != nil {
			return nil, err
		}
		variables = append(variables, prepared)
	}
	ctx, found := context.Background(), &timing{}
	found.Scheduler, found.Matching, err = fastest(w.Repeats, devices, func(device cel.Device) (bool, error) {
		matches, _, err := compiled.DeviceMatches(ctx, device)
		return matches, err
	})
	if err != nil {
		return nil, err
	}
	var matching int
	found.Prepared, matching, err = fastest(w.Repeats, variables, func(prepared map[string]any) (bool, error) {
		result, _, err := compiled.Program.ContextEval(ctx, prepared)
		return err == nil && result.Value() == true, err
	})
	if err == nil && matching != found.Matching {
		err = fmt.Errorf("%d devices match when prepared, %d otherwise", matching, found.Matching)
	}
	return found, err
}

// prepare makes an expression's variables of a device that has scalar attributes.
func prepare(driver string, device *resourceapi.Device) (map[string]any, error) {
	attributes, capacity := map[string]map[string]any{}, map[string]map[string]any{}
	for name, attribute := range device.Attributes {
		value, err := scalar(attribute)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		put(attributes, driver, name, value)
	}
	for name, amount := range device.Capacity {
		put(capacity, driver, name, apiservercel.Quantity{Quantity: &amount.Value})
	}
	return map[string]any{"device": map[string]any{
		"driver": driver, "allowMultipleAllocations": ptr.Deref(device.AllowMultipleAllocations, false),
		"attributes": attributes, "capacity": capacity,
	}}, nil
}

func scalar(attribute resourceapi.DeviceAttribute) (any, error) {
	switch {
	case attribute.IntValue != nil:
		return *attribute.IntValue, nil
	case attribute.BoolValue != nil:
		return *attribute.BoolValue, nil
	case attribute.StringValue != nil:
		return *attribute.StringValue, nil
	case attribute.VersionValue != nil:
		version, err := semver.Parse(*attribute.VersionValue)
		return apiservercel.Semver{Version: version}, err
	}
	return nil, fmt.Errorf("not a scalar")
}

func put(values map[string]map[string]any, driver string, name resourceapi.QualifiedName, value any) {
	domain, id, qualified := strings.Cut(string(name), "/")
	if !qualified {
		domain, id = driver, domain
	}
	if values[domain] == nil {
		values[domain] = map[string]any{}
	}
	values[domain][id] = value
}

// fastest returns the nanoseconds of an evaluation in the best of all repeats, and how many inputs match.
func fastest[Input any](repeats int, inputs []Input, evaluate func(Input) (bool, error)) (best float64, matching int, err error) {
	for repeat := range repeats {
		matching = 0
		started := processorTime()
		for _, input := range inputs {
			matches, err := evaluate(input)
			if err != nil {
				return 0, 0, err
			}
			if matches {
				matching++
			}
		}
		each := float64((processorTime() - started).Nanoseconds()) / float64(len(inputs))
		if repeat == 0 || each < best {
			best = each
		}
	}
	return best, matching, nil
}

// processorTime returns what the process has used so far on all cores, its garbage collector included.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
