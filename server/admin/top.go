package admin

import (
	"fmt"
	"io"
	"time"
)

// A Top is what the daemon did in some time.
type Top struct {
	Seconds float64 `json:"seconds"`
	Status  *Status `json:"status"`
	// Calls counts the calls that ended. Exports, Clients and Operations have those with most calls, at most 20 each. A
	// call counts for the export of its object.
	Calls      uint64     `json:"calls"`
	Exports    []TopEntry `json:"exports"`
	Clients    []TopEntry `json:"clients"`
	Operations []TopEntry `json:"operations"`
}

// A TopEntry is one of the exports, clients or operations.
type TopEntry struct {
	Name  string `json:"name"`
	Calls uint64 `json:"calls"`
	// Failed counts the calls with another status than success; a file that is not there counts, too.
	Failed uint64 `json:"failed"`
	// Mean and Longest say how long the calls took the server, in seconds.
	Mean    float64 `json:"mean_seconds"`
	Longest float64 `json:"longest_seconds"`
}

// Print writes the Top as a page of text with at most most lines for each of its lists.
func (p *Top) Print(out io.Writer, most int) error {
	s := p.Status
	_, err := fmt.Fprintf(out, "nfsrdmad %s, %s, running %s   %s\ncalls/s %.0f  connections %d  clients %d  open files %d  locks %d\nin progress %d (%d wait for a thread, %d for memory)  memory %s of %s\n",
		harmless(s.Version), harmless(s.Condition), since(s.Started), time.Now().Format(time.TimeOnly),
		float64(p.Calls)/p.Seconds, s.Connections, s.Clients, s.Opens, s.Locks, s.Calls, s.Queued, s.MemoryWaiting, size(s.Memory), size(s.Ceiling))
	for _, l := range []struct {
		head string
		of   []TopEntry
	}{{"EXPORT", p.Exports}, {"CLIENT", p.Clients}, {"OPERATION", p.Operations}} {
		fmt.Fprintln(out)
		t := newTable(out)
		t.cells([]any{l.head, "CALLS/S", "FAILED/S", "MEAN", "LONGEST"})
		for i, e := range l.of {
			if i == most {
				break
			}
			t.cells([]any{quoted(e.Name), fmt.Sprintf("%.1f", float64(e.Calls)/p.Seconds), fmt.Sprintf("%.1f", float64(e.Failed)/p.Seconds), milliseconds(e.Mean), milliseconds(e.Longest)})
		}
		if flushed := t.w.Flush(); err == nil {
			err = flushed
		}
	}
	return err
}

func milliseconds(s float64) string { return fmt.Sprintf("%.3fms", s*1e3) }
