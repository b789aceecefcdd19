// Reads lines {"from", "to", "kind", "obj"} and answers each with what the API server's own conversion makes of an
// object: {"obj"}. The object gets no defaults; versions are those of resource.k8s.io.
//
// Build it with the modules of k8s.io/kubernetes v1.37.2 (see go.mod): GOFLAGS=-mod=mod go build -o recorder .
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
)

type question struct {
	From string          `json:"from"`
	To   string          `json:"to"`
	Kind string          `json:"kind"`
	Obj  json.RawMessage `json:"obj"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func convert(q question) any {
	from := schema.GroupVersion{Group: resource.GroupName, Version: q.From}
	to := schema.GroupVersion{Group: resource.GroupName, Version: q.To}
	served, err := legacyscheme.Scheme.New(from.WithKind(q.Kind))
	must(err)
	must(json.Unmarshal(q.Obj, served))
	internal, err := legacyscheme.Scheme.ConvertToVersion(served, resource.SchemeGroupVersion)
	must(err)
	converted, err := legacyscheme.Scheme.ConvertToVersion(internal, to)
	must(err)
	return converted
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var q question
		must(json.Unmarshal(lines.Bytes(), &q))
		answer, err := json.Marshal(map[string]any{"obj": convert(q)})
		must(err)
		fmt.Fprintln(out, string(answer))
	}
}
