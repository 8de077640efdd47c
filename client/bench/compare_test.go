package bench

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// measured returns a stand-in for a measurement. rate is the operations per second of server i in a round.
func measured(order *[]int, rate func(round, i int) float64) func(context.Context, int, int) (*Result, error) {
	return func(_ context.Context, round, i int) (*Result, error) {
		*order = append(*order, i)
		return &Result{
			Server: fmt.Sprintf("server%d:2049", i), Export: "/x<&>", Workload: "read", OperationsPerSecond: rate(round, i), Depth: 16, Connections: 1,
			Latency: Latency{P50: 100 * time.Microsecond, P90: 200 * time.Microsecond, P99: time.Millisecond, P999: 2 * time.Millisecond, Max: 70 * time.Millisecond},
		}, nil
	}
}

// Servers are measured in turns, forwards and backwards, and compared by their medians.
func TestCompareInTurns(t *testing.T) {
	var order []int
	c, err := compare(t.Context(), 2, 3, measured(&order, func(round, i int) float64 { return float64((i+1)*1000 + 100*round) }))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 1, 0, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("measured in the order %v, want %v", order, want)
	}
	first, second := c.Servers[0], c.Servers[1]
	if first.Median != 1100 || first.Least != 1000 || first.Most != 1200 || first.Ratio != 1 || second.Median != 2100 || second.Ratio != 2100.0/1100 {
		t.Errorf("compared as %+v and %+v", first, second)
	}
	var text strings.Builder
	c.Print(&text)
	for _, word := range []string{"server0:2049:/x<&>", "server1:2049", "1000 ... 1200", "2100", "1.91", "100µs"} {
		if !strings.Contains(text.String(), word) {
			t.Errorf("%q is missing in\n%s", word, text.String())
		}
	}
}

// A comparison names the version of RPC-over-RDMA: once, or at each server if these have different ones.
func TestCompareNamesTheVersions(t *testing.T) {
	for second, want := range map[int][]string{
		1: {"read over rdma version 1,", "server1:2049:/x<&> "},
		2: {"read over rdma,", "server0:2049:/x<&> (rdma version 1)", "server1:2049:/x<&> (rdma version 2)"},
	} {
		var order []int
		whole := measured(&order, func(int, int) float64 { return 1000 })
		c, err := compare(t.Context(), 2, 1, func(ctx context.Context, round, i int) (*Result, error) {
			m, err := whole(ctx, round, i)
			m.Transport, m.RDMAVersion = "rdma", 1+i*(second-1)
			return m, err
		})
		if err != nil {
			t.Fatal(err)
		}
		var text, picture strings.Builder
		c.Print(&text)
		if err := c.WriteSVG(&picture); err != nil {
			t.Fatal(err)
		}
		for _, words := range want {
			if !strings.Contains(text.String(), words) {
				t.Errorf("%q is missing in\n%s", words, text.String())
			}
			if words = html.EscapeString(strings.TrimSpace(words)); !strings.Contains(picture.String(), words) {
				t.Errorf("%q is missing in the picture\n%s", words, picture.String())
			}
		}
	}
}

// A comparison that is interrupted keeps the complete rounds. What was interrupted counts only for a server that has
// nothing else, and a server without any result is left out.
func TestCompareInterrupted(t *testing.T) {
	cut := errors.New("cut")
	for _, c := range []struct {
		at     int // the measurement that is interrupted
		rounds []int
		median float64
	}{
		{0, []int{1}, 7}, {1, []int{1, 1}, 7}, {2, []int{1, 2}, 2000}, {4, []int{3, 2}, 2050},
	} {
		var order []int
		whole := measured(&order, func(round, i int) float64 { return float64((i+1)*1000 + 100*round) })
		all, err := compare(t.Context(), 2, 3, func(ctx context.Context, round, i int) (*Result, error) {
			m, err := whole(ctx, round, i)
			if len(order) == c.at+1 {
				m.Interrupted, m.OperationsPerSecond, err = true, 7, cut
			}
			return m, err
		})
		if !errors.Is(err, cut) || len(all.Servers) != len(c.rounds) {
			t.Fatalf("cut at %d: %+v, %v", c.at, all, err)
		}
		for i, n := range c.rounds {
			if got := len(all.Servers[i].Rounds); got != n {
				t.Errorf("cut at %d: %d rounds of server %d, want %d", c.at, got, i, n)
			}
		}
		last := all.Servers[len(all.Servers)-1]
		if last.Median != c.median {
			t.Errorf("cut at %d: the median of the last server is %v, want %v", c.at, last.Median, c.median)
		}
		if len(last.Rounds) > 1 && last.typical().Interrupted {
			t.Errorf("cut at %d: the latencies of the last server are those of the round that was interrupted", c.at)
		}
	}
}

// The picture is XML with a bar for each server, and nothing in it lies outside.
func TestPicture(t *testing.T) {
	for _, servers := range []int{1, 3} {
		var order []int
		c, err := compare(t.Context(), servers, 2, measured(&order, func(round, i int) float64 { return float64((i+1)*1000 + 100*round) }))
		if err != nil {
			t.Fatal(err)
		}
		var picture strings.Builder
		if err := c.WriteSVG(&picture); err != nil {
			t.Fatal(err)
		}
		bars, dots := 0, 0
		for d := xml.NewDecoder(strings.NewReader(picture.String())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, picture.String())
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			switch e.Name.Local {
			case "rect":
				bars++
			case "circle":
				dots++
			}
			for _, a := range e.Attr {
				var at float64
				if _, err := fmt.Sscanf(a.Value, "%f", &at); err == nil && len(a.Name.Local) <= 2 && (at < 0 || at > svgWidth) {
					t.Errorf("%s=%s lies outside", a.Name.Local, a.Value)
				}
			}
		}
		if wantDots := servers * (2 + len(percentiles)); bars != servers+1 || dots != wantDots {
			t.Errorf("%d rectangles and %d dots for %d servers, want %d and %d", bars, dots, servers, servers+1, wantDots)
		}
	}
}
