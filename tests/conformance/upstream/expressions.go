package main

import (
	"context"
	"encoding/json"
	"strconv"

	celgo "github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
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
	compiler := cel.GetCompiler(celFeatures(features))
	create(compiler, q, found)
	stored, err := compile(compiler, q.Expression, cel.Options{
		DisableCostEstimation: true, DerivedAttribute: q.DerivedAttribute,
	})
	switch {
	case err != nil:
		found.Verdict, found.CompileError = "panic", err.Error()
	case stored.Error != nil:
		found.Verdict, found.CompileError = "compile-error", stored.Error.Error()
	default:
		found.OutputType = stored.OutputType.String()
		if _, err := guarded(func() (struct{}, error) { run(stored, q, found); return struct{}{}, nil }); err != nil {
			found.Verdict, found.RuntimeError = "panic", err.Error()
		}
	}
	return found, nil
}

// create compiles the expression as the API server does for a new object.
func create(compiler compiler, q *question, found *evaluation) {
	created, err := compile(compiler, q.Expression, cel.Options{
		EnvType: ptr.To(environment.NewExpressions), DerivedAttribute: q.DerivedAttribute,
	})
	if err != nil {
		found.NewCompileError = err.Error()
		return
	}
	found.EstimatedCost = created.MaxCost
	if created.Error != nil {
		found.NewCompileError = created.Error.Error()
	} else {
		found.TooExpensive = created.MaxCost > resourceapi.CELSelectorExpressionMaxCost
	}
}

type compiler interface {
	CompileCELExpression(expression string, options cel.Options) cel.CompilationResult
}

// compile turns a panic of the compiler into an error.
func compile(compiler compiler, expression string, options cel.Options) (cel.CompilationResult, error) {
	return guarded(func() (cel.CompilationResult, error) { return compiler.CompileCELExpression(expression, options), nil })
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
