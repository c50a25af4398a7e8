// What the plugin answers to a packet that was recorded. Run: go test ./...
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

func TestTheAnswerIsTheOneThatWasRecorded(t *testing.T) {
	body, err := os.ReadFile("packet.json")
	if err != nil {
		t.Fatal(err)
	}
	packet, err := decoded(body)
	if err != nil {
		t.Fatal(err)
	}
	given, err := answer(packet)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("answer.json")
	if err != nil {
		t.Fatal(err)
	}
	var actual, expected any
	if err := json.Unmarshal(text, &actual); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(recorded, &expected); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(actual, expected) {
		t.Fatalf("the answer is %s, and %s was recorded", text, recorded)
	}
}
