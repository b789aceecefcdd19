package main

import "regexp"

// errorKinds tell upstream's errors apart by their texts; the first that matches counts.
var errorKinds = []struct {
	kind string
	text *regexp.Regexp
}{
	{"panic", regexp.MustCompile(`^panic: `)},
	{"feature-off", regexp.MustCompile(`feature is disabled`)},
	{"no-class", regexp.MustCompile(`could not retrieve device class`)},
	{"limit", regexp.MustCompile(`exceeds the claim limit|is too large`)},
	{"limit-search", regexp.MustCompile(`allocation max size exceeded`)},
	{"all-incomplete-pool", regexp.MustCompile(`asks for all devices, but resource pool \S+ is currently being updated`)},
	{"all-invalid-pool", regexp.MustCompile(`asks for all devices, but resource pool \S+ is currently invalid`)},
	{"all-constraint", regexp.MustCompile(`a claim constraint would not be satisfied`)},
	{"invalid-pool", regexp.MustCompile(`invalid resource pools`)},
	{"derived-compile", regexp.MustCompile(`compile derived attribute`)},
	{"derived-runtime", regexp.MustCompile(`evaluate derived attribute`)},
	{"cel-compile", regexp.MustCompile(`CEL compile error`)},
	{"cel-runtime", regexp.MustCompile(`CEL runtime error`)},
	{"capacity", regexp.MustCompile(`checking capacity for device|computing consumed capacity`)},
	{"invalid-claim", regexp.MustCompile(`unsupported (selector|request|constraint) type|unsupported count mode`)},
	{"node-selector", regexp.MustCompile(`create NodeSelector|gather pool information`)},
}

func errorKind(err error) string {
	for _, known := range errorKinds {
		if known.text.MatchString(err.Error()) {
			return known.kind
		}
	}
	return "other"
}
