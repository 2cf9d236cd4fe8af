// Clients in Go for the incidents: client WORK.json
//
// franz-go and sarama do the same work, each with its own habits. The words of the work are those of
// tests/lab/incidents/work.py. What fails is printed, and the work goes on until the process is ended.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Work is what one client does.
type Work struct {
	ClientID        string   `json:"client_id"`
	Role            string   `json:"role"`
	Bootstrap       string   `json:"bootstrap"`
	Library         string   `json:"library"`
	Topics          []string `json:"topics"`
	PerSecond       float64  `json:"per_second"`
	Burst           int      `json:"burst"`
	Records         int      `json:"records"`
	ValueBytes      int      `json:"value_bytes"`
	LingerMs        int      `json:"linger_ms"`
	Acks            string   `json:"acks"`
	Compression     string   `json:"compression"`
	Key             string   `json:"key"`
	Idempotent      bool     `json:"idempotent"`
	TimestampOffset int      `json:"timestamp_offset_ms"`
	TimeoutMs       int      `json:"timeout_ms"`
	DeliveryMs      int      `json:"delivery_ms"`
	TransactionalID string   `json:"transactional_id"`
	InTransaction   int      `json:"in_transaction"`
	HoldS           float64  `json:"hold_s"`
	AbortEvery      int      `json:"abort_every"`
	Group           string   `json:"group"`
	InstanceID      string   `json:"instance_id"`
	RestMs          float64  `json:"rest_ms"`
	StallAfter      int      `json:"stall_after"`
	StallMs         float64  `json:"stall_ms"`
	SessionMs       int      `json:"session_ms"`
	PollMs          int      `json:"poll_ms"`
	Strategy        string   `json:"strategy"`
	Reset           string   `json:"reset"`
	User            string   `json:"user"`
	Password        string   `json:"password"`
	Mechanism       string   `json:"mechanism"`
	TLS             bool     `json:"tls"`
	Authority       string   `json:"authority"`
	Name            string   `json:"name"`
	Version         string   `json:"version"`
	Extra           map[string]any
}

// Rest lasts as long as the work on the so manieth record does.
func (w Work) Rest(read int) {
	rest := w.RestMs
	if w.StallAfter > 0 && read == w.StallAfter {
		rest = w.StallMs
	}
	if rest > 0 {
		time.Sleep(time.Duration(rest * float64(time.Millisecond)))
	}
}

// Paced calls step with the number of each step, so many a second.
func (w Work) Paced(step func(number int)) {
	begin := time.Now()
	for number := 0; w.Records == 0 || number < w.Records; number++ {
		if number%max(w.Burst, 1) == 0 {
			due := begin.Add(time.Duration(float64(number) / w.PerSecond * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		step(number)
	}
}

// Value is the text of a record; KeyOf its key; Moment its time.
func (w Work) Value(number int) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, `{"sender":%q,"number":%d,"text":"`, w.ClientID, number)
	for step := 0; text.Len() < w.ValueBytes-2; step++ {
		fmt.Fprintf(&text, "item%d ", (number*31+step*7)%997)
	}
	return append([]byte(text.String()[:max(w.ValueBytes-2, 20)]), '"', '}')
}

func (w Work) KeyOf(number int) []byte {
	if w.Key != "" {
		return []byte(w.Key)
	}
	return fmt.Appendf(nil, "%s-%d", w.ClientID, number)
}

func (w Work) Moment() time.Time {
	return time.Now().Add(time.Duration(w.TimestampOffset) * time.Millisecond)
}

func (w Work) Brokers() []string { return strings.Split(w.Bootstrap, ",") }

// OnStop closes the client in order when the process is asked to end: its members leave their groups.
func OnStop(closing func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		closing()
		os.Exit(0)
	}()
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var work Work
	if err := json.Unmarshal(text, &work); err != nil {
		log.Fatal(err)
	}
	run := map[string]func(Work) error{"franz-go": franz, "sarama": saramaClient}[work.Library]
	for {
		if err := run(work); err == nil {
			return
		} else {
			log.Println("again:", err)
		}
		time.Sleep(time.Second)
	}
}
