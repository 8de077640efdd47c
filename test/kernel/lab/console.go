package lab

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// eventMark begins a line by which a script reports an event to the test. The function event in
// prelude.sh prints it.
const eventMark = "::event "

// console receives a guest's output, and wakes goroutines that wait for an event in it.
type console struct {
	mu     sync.Mutex
	all    bytes.Buffer
	line   []byte
	events map[string]chan struct{}
}

func newConsole() *console { return &console{events: map[string]chan struct{}{}} }

// consoleLimit is the largest number of bytes of a guest's output that the console stores.
const consoleLimit = 8 << 20

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Getenv("NFSRDMAD_LAB_VERBOSE") != "" {
		os.Stderr.Write(p)
	}
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			c.line = append(c.line, rest...)
			break
		}
		c.line = append(c.line, rest[:end]...)
		c.take(strings.TrimRight(string(c.line), "\r"))
		c.line, rest = c.line[:0], rest[end+1:]
	}
	return len(p), nil
}

func (c *console) take(line string) {
	if name, found := strings.CutPrefix(line, eventMark); found {
		happened := c.channel(name)
		select {
		case <-happened:
		default:
			close(happened)
		}
	}
	if strings.Contains(line, "reboot: Power down") || strings.Contains(line, "sysrq: Power Off") {
		return
	}
	if c.all.Len() < consoleLimit {
		c.all.WriteString(line)
		c.all.WriteByte('\n')
	}
}

func (c *console) channel(event string) chan struct{} {
	if c.events[event] == nil {
		c.events[event] = make(chan struct{})
	}
	return c.events[event]
}

// event returns a channel that is closed when the script reports this event.
func (c *console) event(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channel(name)
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.String() + string(c.line)
}
