package soak

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A census has the amounts of the daemon's resources at one time.
type census struct {
	goroutines, descriptors, threads int
	resident                         int // bytes
	heap                             int // bytes that the Go heap uses after a garbage collection
}

func (c census) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d threads, %d MiB resident, %d MiB of heap", c.goroutines, c.descriptors, c.threads, c.resident/mib, c.heap/mib)
}

// A later census may exceed the first one by a quarter and by slack. The daemon's memory for
// clients and calls is at most 32 MiB, and up to twice that with the race detector. The number of
// threads is not judged: it is the greatest number of calls that ever waited at the same time.
var slack = census{goroutines: 64, descriptors: 64, resident: 64 * mib, heap: 32 * mib}

// grown returns a description of the resources that have grown too much between c and a later
// census: by more than the sum of a quarter of the amount in c and the amount in slack. It returns
// "" if there are none.
func (c census) grown(later census) string {
	var all []string
	for _, v := range []struct {
		name              string
		first, then, more int
	}{
		{"goroutines", c.goroutines, later.goroutines, slack.goroutines},
		{"descriptors", c.descriptors, later.descriptors, slack.descriptors},
		{"bytes resident", c.resident, later.resident, slack.resident},
		{"bytes of heap", c.heap, later.heap, slack.heap},
	} {
		if v.then > v.first+v.first/4+v.more {
			all = append(all, fmt.Sprintf("%d %s, which were %d", v.then, v.name, v.first))
		}
	}
	return strings.Join(all, "; ")
}

// take returns a census. It gets the numbers from the daemon and from the kernel.
func (s *soak) take() (c census) {
	goroutines, err := s.profile("goroutine?debug=1")
	if err != nil {
		s.report("the daemon does not tell of its goroutines: %v", err)
	}
	if m := total.FindStringSubmatch(goroutines); m != nil {
		c.goroutines, _ = strconv.Atoi(m[1])
	}
	process := fmt.Sprintf("/proc/%d", s.process.PID())
	heap, err := s.profile("heap?gc=1&debug=1")
	if err != nil {
		s.report("the daemon does not tell of its memory: %v", err)
	}
	if m := inUse.FindStringSubmatch(heap); m != nil {
		c.heap, _ = strconv.Atoi(m[1])
	}
	status, _ := os.ReadFile(filepath.Join(process, "status"))
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch key {
		case "VmRSS":
			c.resident = n << 10
		case "Threads":
			c.threads = n
		}
	}
	open, _ := os.ReadDir(filepath.Join(process, "fd"))
	c.descriptors = len(open)
	return c
}

var (
	total = regexp.MustCompile(`total (\d+)`)
	inUse = regexp.MustCompile(`# HeapInuse = (\d+)`)
)

// profile gets a profile of net/http/pprof from the daemon.
func (s *soak) profile(which string) (string, error) {
	k := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", profileSocket)
		}}}
	r, err := k.Get("http://daemon/debug/pprof/" + which)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// hang reports the stacks of the daemon's goroutines. Callers call it when the daemon has not
// answered within patience. It reports them only once.
func (s *soak) hang() {
	s.hung.Do(func() {
		stacks, err := s.profile("goroutine?debug=2")
		s.report("the daemon does not answer within %v; its goroutines (%v):\n%s", patience, err, stacks)
	})
}
