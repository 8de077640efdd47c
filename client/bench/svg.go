package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// The sizes of the picture, in pixels.
const (
	svgWidth, svgLeft, svgRight = 900, 250, 140
	svgBar, svgTop              = 26, 64
	svgLatencies                = 260
)

// WriteSVG writes the comparison as a picture: bars of the operations per second, with a dot for each round,
// and the latencies of the typical round of each server on a logarithmic scale. It needs no script, font or
// other file.
func (c *Comparison) WriteSVG(w io.Writer) error {
	d := &drawing{plot: float64(svgWidth - svgLeft - svgRight)}
	m := c.Servers[0].Rounds[0]
	d.text(16, 26, "start", 15, c.title())
	d.text(16, 46, "start", 12, fmt.Sprintf("operations per second; %d at a time on each of %d connections", m.Depth, m.Connections))
	bottom := d.rates(c)
	d.text(16, bottom+34, "start", 12, "latency of single operations: the part of them that took at most so long")
	d.latencies(c, bottom+50)
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%[1]d\" height=\"%[2]d\" font-family=\"sans-serif\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n", svgWidth, int(bottom)+50+svgLatencies+40, d.String())
	return err
}

// WriteSVG writes the result as a picture, as of a Comparison with one server.
func (m *Result) WriteSVG(w io.Writer) error {
	c := &Comparison{Servers: []Compared{{Rounds: []*Result{m}}}}
	c.sum()
	return c.WriteSVG(w)
}

// A drawing collects the elements of a picture.
type drawing struct {
	strings.Builder
	plot float64 // width of the part with data
}

func (d *drawing) text(x, y float64, anchor string, size int, text string) {
	fmt.Fprintf(d, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", x, y, anchor, size, html.EscapeString(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(d, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour)
}

func (d *drawing) dot(x, y float64, colour string) {
	fmt.Fprintf(d, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour)
}

// colours are those of the servers, in turns. Readers who see few colours can tell them apart.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"}

func colour(i int) string { return colours[i%len(colours)] }

// rates draws a bar for each server, and returns the lower edge.
func (d *drawing) rates(c *Comparison) (bottom float64) {
	most := 1.0
	for i := range c.Servers {
		for _, m := range c.Servers[i].Rounds {
			most = max(most, m.OperationsPerSecond)
		}
	}
	y := float64(svgTop)
	for i := range c.Servers {
		s := &c.Servers[i]
		d.text(svgLeft-8, y+svgBar/2+4, "end", 12, c.name(i))
		fmt.Fprintf(d, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" fill-opacity=\"0.55\"/>\n", svgLeft, y, d.plot*s.Median/most, svgBar-6, colour(i))
		for _, m := range s.Rounds {
			d.dot(svgLeft+d.plot*m.OperationsPerSecond/most, y+svgBar/2-3, "#222")
		}
		label := fmt.Sprintf("%.0f", s.Median)
		if len(c.Servers) > 1 {
			label += fmt.Sprintf(" (× %.2f)", s.Ratio)
		}
		d.text(svgLeft+d.plot+8, y+svgBar/2+4, "start", 12, label)
		y += svgBar
	}
	return y
}

// percentiles are the marks on the axis of latencies.
var percentiles = []struct {
	name string
	of   func(Latency) time.Duration
}{
	{"50 %", func(l Latency) time.Duration { return l.P50 }}, {"90 %", func(l Latency) time.Duration { return l.P90 }},
	{"99 %", func(l Latency) time.Duration { return l.P99 }}, {"99.9 %", func(l Latency) time.Duration { return l.P999 }},
	{"all", func(l Latency) time.Duration { return l.Max }},
}

// latencies draws a line for each server from top downwards. The scale has a mark at each power of ten.
func (d *drawing) latencies(c *Comparison, top float64) {
	least, most := math.Inf(1), math.Inf(-1)
	power := func(l time.Duration) float64 { return math.Log10(float64(max(l, 1))) }
	for i := range c.Servers {
		l := c.Servers[i].typical().Latency
		least, most = min(least, math.Floor(power(l.P50))), max(most, math.Ceil(power(l.Max)))
	}
	most = max(most, least+1)
	at := func(l time.Duration) float64 { return top + svgLatencies*(most-power(l))/(most-least) }
	for p := least; p <= most; p++ {
		l := time.Duration(math.Round(math.Pow(10, p)))
		d.line(svgLeft, at(l), svgLeft+d.plot, at(l), "#ddd")
		d.text(svgLeft-8, at(l)+4, "end", 12, l.String())
	}
	step := d.plot / float64(len(percentiles)-1)
	for j, p := range percentiles {
		d.text(svgLeft+step*float64(j), top+svgLatencies+18, "middle", 12, p.name)
	}
	for i := range c.Servers {
		l := c.Servers[i].typical().Latency
		for j, p := range percentiles {
			x := svgLeft + step*float64(j)
			if j > 0 {
				d.line(x-step, at(percentiles[j-1].of(l)), x, at(p.of(l)), colour(i))
			}
			d.dot(x, at(p.of(l)), colour(i))
		}
	}
}
