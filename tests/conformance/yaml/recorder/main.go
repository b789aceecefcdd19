// Reads JSON strings, one a line, each a YAML value; answers with the JSON that go-yaml v2 makes of it, or ERROR.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	yaml "go.yaml.in/yaml/v2"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			panic(err)
		}
		var document map[string]interface{}
		answer := []byte("ERROR")
		if yaml.Unmarshal([]byte("v: "+text+"\n"), &document) == nil {
			if value, err := json.Marshal(document["v"]); err == nil {
				answer = value
			}
		}
		fmt.Println(string(answer))
	}
}
