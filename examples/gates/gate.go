// AccessGate: lets small jobs pass and suspends large ones until somebody has looked at them. Standard library only.
//
//	go run gate.go 9201
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
)

const small = 8 // replicas

type packet struct {
	Header map[string]any `json:"header"`
	Job    struct {
		Spec struct {
			Roles []struct {
				Replicas *int `json:"replicas"`
			} `json:"roles"`
		} `json:"spec"`
	} `json:"job"`
}

type answer struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

func decide(p packet) answer {
	replicas := 0
	for _, role := range p.Job.Spec.Roles {
		if role.Replicas == nil {
			replicas++
		} else {
			replicas += *role.Replicas
		}
	}
	if replicas <= small {
		return answer{"pass", fmt.Sprintf("%d of at most %d replicas", replicas, small)}
	}
	return answer{"suspend", fmt.Sprintf("%d replicas are more than %d: somebody has to agree", replicas, small)}
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var p packet
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(decide(p))
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
