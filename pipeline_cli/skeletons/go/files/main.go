// Serves the plugin over HTTP: signatures, Idempotency-Keys, health, a graceful stop.
//
//	go run . @PORT@
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxBody       = 64 << 20
	maxRemembered = 10_000
	tolerance     = 300 * time.Second
)

// rejected says that the job itself is wrong: a translator answers 422 then, and the job fails with these words.
type rejected string

func (r rejected) Error() string { return string(r) }

type object = map[string]any

func signingKey() []byte {
	text := strings.TrimRight(strings.TrimPrefix(os.Getenv("PLUGIN_SIGNING_SECRET"), "whsec_"), "=")
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		log.Fatal("PLUGIN_SIGNING_SECRET is not whsec_ and base64")
	}
	return key
}

func isSigned(key []byte, header http.Header, body []byte) bool {
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	age := time.Since(time.Unix(seconds, 0))
	if err != nil || age > tolerance || age < -tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", header.Get("webhook-id"), header.Get("webhook-timestamp"))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, given := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal(expected, []byte(given)) {
			return true
		}
	}
	return false
}

// A call is made once for each question; those who ask it meanwhile wait for its answer.
type call struct {
	once   sync.Once
	answer any
	err    error
}

type memory struct {
	sync.Mutex
	calls map[string]*call
	order []string
}

func (m *memory) call(key string) *call {
	m.Lock()
	defer m.Unlock()
	found, known := m.calls[key]
	if !known {
		found = &call{}
		m.calls[key] = found
		m.order = append(m.order, key)
		if len(m.order) > maxRemembered {
			delete(m.calls, m.order[0])
			m.order = m.order[1:]
		}
	}
	return found
}

func (m *memory) forget(key string) {
	m.Lock()
	defer m.Unlock()
	delete(m.calls, key)
}

func (m *memory) ask(header http.Header, body []byte, packet object) (any, error) {
	name := header.Get("Idempotency-Key")
	if name == "" {
		return answer(packet)
	}
	key := fmt.Sprintf("%s %x", name, sha256.Sum256(body))
	one := m.call(key)
	one.once.Do(func() {
		defer func() {
			if failure := recover(); failure != nil {
				one.err = fmt.Errorf("%v", failure)
			}
		}()
		one.answer, one.err = answer(packet)
	})
	// What failed, and what is to be sent again, is asked anew.
	if one.err != nil || one.answer == "RE" {
		m.forget(key)
	}
	return one.answer, one.err
}

func decoded(body []byte) (object, error) {
	var packet object
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // A number goes back as it came.
	err := decoder.Decode(&packet)
	if err == nil && packet == nil {
		err = errors.New("the body is not a JSON object")
	}
	return packet, err
}

func reply(w http.ResponseWriter, status int, value any) {
	mediaType, body := "text/plain", []byte(fmt.Sprint(value))
	if _, text := value.(string); !text {
		mediaType = "application/json"
		var err error
		if body, err = json.Marshal(value); err != nil {
			status, body = http.StatusInternalServerError, []byte(`{"error": "the answer is not JSON"}`)
		}
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

func handler(key []byte) http.Handler {
	remembered := &memory{calls: map[string]*call{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) { reply(w, 200, object{"status": "ok"}) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status, value := respond(remembered, key, w, r)
		reply(w, status, value)
		log.Printf(`{"level":"info","message":"answered","status":%d,"jobID":%q}`, status, r.Header.Get("X-Job-ID"))
	})
	return mux
}

func respond(remembered *memory, key []byte, w http.ResponseWriter, r *http.Request) (int, any) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, object{"error": "send a packet with POST"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return http.StatusRequestEntityTooLarge, object{"error": err.Error()}
	}
	if len(key) > 0 && !isSigned(key, r.Header, body) {
		return http.StatusUnauthorized, object{"error": "the signature is not right"}
	}
	packet, err := decoded(body)
	if err != nil {
		return http.StatusBadRequest, object{"error": err.Error()}
	}
	value, err := remembered.ask(r.Header, body, packet)
	var wrong rejected
	if errors.As(err, &wrong) {
		return http.StatusUnprocessableEntity, object{"error": wrong.Error()}
	}
	if err != nil {
		log.Printf(`{"level":"error","message":%q}`, err)
		return http.StatusInternalServerError, object{"error": "the plugin failed; its log has the reason"}
	}
	return http.StatusOK, value
}

func main() {
	log.SetFlags(0)
	port, host := "@PORT@", "127.0.0.1"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	if len(os.Args) > 2 {
		host = os.Args[2]
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: handler(signingKey()), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 75 * time.Second}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	go func() {
		fmt.Printf("listening on http://%s\n", listener.Addr())
		if err := server.Serve(listener); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	<-stop.Done()
	grace, done := context.WithTimeout(context.Background(), 25*time.Second)
	defer done()
	if err := server.Shutdown(grace); err != nil {
		os.Exit(1)
	}
}
