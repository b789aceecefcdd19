package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// featureSets are sets of gates by the names that recordings use; "all" is made of whatever upstream knows.
var featureSets = map[string][]string{
	"none":   {},
	"stable": {"AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints"},
	"default": {
		"AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints", "DeviceBindingAndStatus",
		"ConsumableCapacity", "FractionalCapacityRange",
	},
}

// parseFeatures reads the name of a set, or gates with their state.
func parseFeatures(raw json.RawMessage) (structured.Features, error) {
	var features structured.Features
	fields := reflect.ValueOf(&features).Elem()
	gates := map[string]bool{}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		if name == "all" {
			for i := range fields.NumField() {
				fields.Field(i).SetBool(true)
			}
			return features, nil
		}
		set, known := featureSets[name]
		if !known {
			return features, fmt.Errorf("features: unknown set %q", name)
		}
		for _, gate := range set {
			gates[gate] = true
		}
	} else if err := json.Unmarshal(raw, &gates); err != nil {
		return features, fmt.Errorf("features: %w", err)
	}
	for gate, on := range gates {
		field := fields.FieldByName(gate)
		if !field.IsValid() {
			return features, fmt.Errorf("features: unknown gate %q", gate)
		}
		field.SetBool(on)
	}
	return features, nil
}

func celFeatures(features structured.Features) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
}
