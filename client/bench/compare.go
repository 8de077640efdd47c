package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
)

// A Comparison has what Compare measured of several servers. Its JSON keys are stable.
type Comparison struct {
	Servers []Compared `json:"servers"`
}

// Compared is one server of a Comparison.
type Compared struct {
	// Rounds has the results in the order of the rounds. The last one may be of a measurement that was
	// interrupted.
	Rounds []*Result `json:"rounds"`
	// Median, Least and Most are operations per second over the rounds that were complete, or over the
	// one that was interrupted if there is no other.
	Median float64 `json:"median_operations_per_second"`
	Least  float64 `json:"least_operations_per_second"`
	Most   float64 `json:"most_operations_per_second"`
	// Ratio is Median divided by that of the first server.
	Ratio float64 `json:"ratio"`
}

// Compare measures servers in turns: in each round each of them once, in every second round in the opposite order,
// so that what changes slowly, such as the load of a machine, concerns all of them alike. It calls begin before each
// measurement. If an error, or the end of ctx, ends it early, it returns what it has together with the error: the Comparison
// lacks servers without a result, and is nil if there is none at all.
func Compare(ctx context.Context, servers []Config, rounds int, begin func(round, server int)) (*Comparison, error) {
	return compare(ctx, len(servers), rounds, func(ctx context.Context, round, i int) (*Result, error) {
		begin(round, i)
		return Run(ctx, servers[i])
	})
}

func compare(ctx context.Context, servers, rounds int, measure func(ctx context.Context, round, server int) (*Result, error)) (*Comparison, error) {
	c := &Comparison{Servers: make([]Compared, servers)}
	var err error
	for round := 0; round < rounds && err == nil; round++ {
		for turn := 0; turn < servers && err == nil; turn++ {
			i := turn
			if round%2 == 1 {
				i = servers - 1 - turn
			}
			var m *Result
			if m, err = measure(ctx, round, i); m != nil {
				c.Servers[i].Rounds = append(c.Servers[i].Rounds, m)
			}
		}
	}
	c.Servers = slices.DeleteFunc(c.Servers, func(s Compared) bool { return len(s.Rounds) == 0 })
	if len(c.Servers) == 0 {
		return nil, err
	}
	c.sum()
	return c, err
}

// sum computes the medians and ratios. Each server has a result.
func (c *Comparison) sum() {
	for i := range c.Servers {
		s := &c.Servers[i]
		rates := s.rates()
		s.Least, s.Most = rates[0], rates[len(rates)-1]
		s.Median = (rates[(len(rates)-1)/2] + rates[len(rates)/2]) / 2
		if first := c.Servers[0].Median; first > 0 {
			s.Ratio = s.Median / first
		}
	}
}

// counted returns the rounds that were complete, or if there is none the one that was interrupted.
func (s *Compared) counted() []*Result {
	if len(s.Rounds) == 1 {
		return s.Rounds
	}
	return slices.DeleteFunc(slices.Clone(s.Rounds), func(m *Result) bool { return m.Interrupted })
}

// rates returns the operations per second of the rounds that count, in ascending order.
func (s *Compared) rates() (rates []float64) {
	for _, m := range s.counted() {
		rates = append(rates, m.OperationsPerSecond)
	}
	slices.Sort(rates)
	return rates
}

// typical returns the round whose rate is nearest to the median, of those that count.
func (s *Compared) typical() *Result {
	return slices.MinFunc(s.counted(), func(a, b *Result) int {
		return cmp.Compare(math.Abs(a.OperationsPerSecond-s.Median), math.Abs(b.OperationsPerSecond-s.Median))
	})
}

// Print writes the comparison as a table.
func (c *Comparison) Print(w io.Writer) {
	m := c.Servers[0].Rounds[0]
	fmt.Fprintf(w, "%s; %d at a time on each of %d connections\n", c.title(), m.Depth, m.Connections)
	const row = "%-32s %10s %22s %6s %10s %10s %7s\n"
	fmt.Fprintf(w, row, "server", "median", "from ... to, op/s", "rounds", "p50", "p99", "ratio")
	for i := range c.Servers {
		s := &c.Servers[i]
		latency := s.typical().Latency
		fmt.Fprintf(w, row, c.name(i), fmt.Sprintf("%.0f", s.Median), fmt.Sprintf("%.0f ... %.0f", s.Least, s.Most), fmt.Sprint(len(s.rates())),
			short(latency.P50), short(latency.P99), fmt.Sprintf("%.2f", s.Ratio))
	}
}

// title says what was measured of all servers.
func (c *Comparison) title() string {
	m := c.Servers[0].Rounds[0]
	over := m.over()
	if c.versionsDiffer() {
		over = string(m.Transport)
	}
	return fmt.Sprintf("%s over %s, NFS version %s, sec=%v", m.Workload, over, m.NFS, m.Security)
}

// name returns how output names server i. If the servers have different versions of RPC-over-RDMA, the name has the version.
func (c *Comparison) name(i int) string {
	m := c.Servers[i].Rounds[0]
	name := m.Server + ":" + m.Export
	if c.versionsDiffer() {
		name += " (" + m.over() + ")"
	}
	return name
}

func (c *Comparison) versionsDiffer() bool {
	first := c.Servers[0].Rounds[0].RDMAVersion
	return slices.ContainsFunc(c.Servers, func(s Compared) bool { return s.Rounds[0].RDMAVersion != first })
}
