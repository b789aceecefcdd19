// Answers allocation problems and selector expressions with the real upstream code, k8s.io/dynamic-resource-allocation.
//
//	upstream alloc < problems.jsonl > answers.jsonl
//	upstream cel   < expressions.jsonl > answers.jsonl
//	upstream bench < workloads.jsonl > timings.jsonl
//
// One JSON object per line, in the form of tests/conformance/data; the answer is what stands there in "upstream". A
// line is answered before the next one is read, so that a program can ask one question after the other.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// bufferBytes is the first size of the buffers; longer lines are read all the same.
const bufferBytes = 1 << 20

type failure struct {
	Failure string `json:"failure"`
}

func main() {
	modes := map[string]func([]byte) any{
		"alloc": func(line []byte) any { return answer(line, allocate) },
		"cel":   func(line []byte) any { return answer(line, evaluate) },
		"bench": func(line []byte) any { return answer(line, measure) },
	}
	if len(os.Args) != 2 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: upstream alloc|cel|bench < questions > answers")
		os.Exit(2)
	}
	if err := serve(os.Stdin, os.Stdout, modes[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answer decodes one question and answers it; a question with a field that is not known is refused.
func answer[Question, Answer any](line []byte, solve func(*Question) (*Answer, error)) any {
	question := new(Question)
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(question); err != nil {
		return failure{Failure: err.Error()}
	}
	answer, err := solve(question)
	if err != nil {
		return failure{Failure: err.Error()}
	}
	return answer
}

func serve(in io.Reader, out io.Writer, solve func([]byte) any) error {
	reader := bufio.NewReaderSize(in, bufferBytes)
	writer := bufio.NewWriterSize(out, bufferBytes)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(solve(line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
