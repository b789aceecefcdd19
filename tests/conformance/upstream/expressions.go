package main

import (
	"context"
	"encoding/json"
	"strconv"

	celgo "github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

type question struct {
	Name             string              `json:"name"`
	Features         json.RawMessage     `json:"features"`
	Expression       string              `json:"expression"`
	Driver           string              `json:"driver"`
	Device           *resourceapi.Device `json:"device"`
	DerivedAttribute bool                `json:"derivedAttribute"`
}

type evaluation struct {
	// As a new expression in the API server.
	NewCompileError string `json:"newCompileError,omitempty"`
	EstimatedCost   uint64 `json:"estimatedCost"`
	TooExpensive    bool   `json:"tooExpensive,omitempty"`
	// As a stored expression in the scheduler.
	CompileError string `json:"compileError,omitempty"`
	OutputType   string `json:"outputType,omitempty"`
	// true, false, value, compile-error, runtime-error, or panic where upstream's process would end
	Verdict      string                       `json:"verdict"`
	Value        *resourceapi.DeviceAttribute `json:"value,omitempty"`
	RuntimeError string                       `json:"runtimeError,omitempty"`
	Cost         *uint64                      `json:"cost,omitempty"`
}

// evaluate compiles an expression as the API server does and as the scheduler does, and evaluates it on a device.
func evaluate(q *question) (*evaluation, error) {
	features, err := parseFeatures(q.Features)
	if err != nil {
		return nil, err
	}
	found := &evaluation{}
	if _, err := guarded(func() (struct{}, error) { return struct{}{}, compileAndRun(q, features, found) }); err != nil {
		found.Verdict, found.CompileError = "panic", err.Error()
	}
	return found, nil
}

func compileAndRun(q *question, features structured.Features, found *evaluation) error {
	compiler := cel.GetCompiler(celFeatures(features))
	created := compiler.CompileCELExpression(q.Expression, cel.Options{
		EnvType: ptr.To(environment.NewExpressions), DerivedAttribute: q.DerivedAttribute,
	})
	found.EstimatedCost = created.MaxCost
	if created.Error != nil {
		found.NewCompileError = created.Error.Error()
	} else {
		found.TooExpensive = created.MaxCost > resourceapi.CELSelectorExpressionMaxCost
	}
	stored := compiler.CompileCELExpression(q.Expression, cel.Options{
		DisableCostEstimation: true, DerivedAttribute: q.DerivedAttribute,
	})
	if stored.Error != nil {
		found.Verdict, found.CompileError = "compile-error", stored.Error.Error()
		return nil
	}
	found.OutputType = stored.OutputType.String()
	run(stored, q, found)
	return nil
}

func run(compiled cel.CompilationResult, q *question, found *evaluation) {
	device := cel.Device{
		Driver:                   q.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	}
	var details *celgo.EvalDetails
	var err error
	if q.DerivedAttribute {
		found.Verdict = "value"
		found.Value, details, err = compiled.EvaluateDerivedAttribute(context.Background(), device)
	} else {
		var matches bool
		matches, details, err = compiled.DeviceMatches(context.Background(), device)
		found.Verdict = strconv.FormatBool(matches)
	}
	if details != nil {
		found.Cost = details.ActualCost()
	}
	if err != nil {
		found.Verdict, found.Value, found.RuntimeError = "runtime-error", nil, err.Error()
	}
}
