package statuspage

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A plot is drawn by the template. Its lengths are those of the SVG image.
type plot struct {
	Title, Note string
	Lines       []line
	Rows        []mark // marks of the vertical axis
	Columns     []mark // marks of the time
	// Width and Height are those of the image; Left, Right, Top and Bottom are the borders of the area of the lines.
	Width, Height, Left, Right, Top, Bottom int
}

// A line is a quantity over time. Class is its class in the style sheet, Now its last value, and Path the path in SVG.
type line struct{ Name, Class, Now, Path string }

// A mark is a line across the area with a text beside it.
type mark struct {
	At   string
	Text string
}

// A quantity is what a line shows. of is NaN if there is no value.
type quantity struct {
	name, class string
	of          func(*point) float64
}

// An axis puts values on a height from 0, the lowest, to 1, and marks some.
type axis struct {
	place func(float64) float64
	marks []float64
	text  func(float64) string
}

// draw draws quantities in the last history before now. The function of chooses the axis for the least and the largest value.
func draw(title, note string, points []point, now time.Time, of func(least, most float64) axis, all ...quantity) *plot {
	p := &plot{Title: title, Note: note, Width: 640, Height: 200, Left: 72, Right: 628, Top: 10, Bottom: 174}
	least, most := math.Inf(1), 0.0
	for i := range points {
		for _, q := range all {
			if v := q.of(&points[i]); !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	a := of(least, most)
	x := func(at time.Time) float64 {
		return float64(p.Right) - float64(now.Sub(at))/float64(history)*float64(p.Right-p.Left)
	}
	y := func(v float64) float64 { return float64(p.Bottom) - a.place(v)*float64(p.Bottom-p.Top) }
	for _, v := range a.marks {
		p.Rows = append(p.Rows, mark{decimal(y(v)), a.text(v)})
	}
	for m := 0; m <= 10; m += 2 {
		text := "now"
		if m > 0 {
			text = fmt.Sprintf("-%d min", m)
		}
		p.Columns = append(p.Columns, mark{decimal(x(now.Add(-time.Duration(m) * time.Minute))), text})
	}
	for _, q := range all {
		l := line{Name: q.name, Class: q.class, Now: "-"}
		var path strings.Builder
		var before time.Time
		for i := range points {
			v := q.of(&points[i])
			if math.IsNaN(v) {
				l.Now, before = "-", time.Time{}
				continue
			}
			l.Now = a.text(v)
			// A value with none before it is a dot: a line of no length with round ends.
			how := "L"
			if points[i].at.Sub(before) > 2*period {
				how = "M" + decimal(x(points[i].at)) + " " + decimal(y(v)) + "L"
			}
			before = points[i].at
			path.WriteString(how + decimal(x(points[i].at)) + " " + decimal(y(v)))
		}
		l.Path = path.String()
		p.Lines = append(p.Lines, l)
	}
	return p
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// linear returns the function that makes an axis from 0 to a round number, whose marks text formats.
func linear(text func(float64) string) func(least, most float64) axis {
	return func(_, most float64) axis {
		most = max(most, 1)
		step := math.Pow(10, math.Floor(math.Log10(most)))
		switch {
		case most/step <= 2:
			step /= 2
		case most/step > 5:
			step *= 2
		}
		top := math.Ceil(most/step) * step
		a := axis{place: func(v float64) float64 { return v / top }, text: text}
		for n := 0.0; n <= math.Round(top/step); n++ {
			a.marks = append(a.marks, n*step)
		}
		return a
	}
}

// decades makes an axis of seconds on which each power of ten has the same height.
func decades(least, most float64) axis {
	if most <= 0 {
		least, most = 1e-5, 1e-2
	}
	low, high := math.Floor(math.Log10(max(least, 1e-6))), math.Ceil(math.Log10(max(most, 1e-6)))
	high = max(high, low+1)
	a := axis{place: func(v float64) float64 { return max(0, (math.Log10(v)-low)/(high-low)) }, text: seconds}
	for k := low; k <= high; k++ {
		a.marks = append(a.marks, math.Pow(10, k))
	}
	return a
}

// scaled formats a number with three digits and the prefix of its unit.
func scaled(v float64, unit string) string {
	prefix := ""
	for _, larger := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, prefix = v/1000, larger
	}
	digits := 0
	if v < 9.995 {
		digits = 2
	} else if v < 99.95 {
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return strings.TrimSpace(text + " " + prefix + unit)
}

func bytesPerSecond(v float64) string { return scaled(v, "B/s") }
func perSecond(v float64) string      { return scaled(v, "/s") }

// seconds formats a duration in seconds.
func seconds(v float64) string {
	switch {
	case v < 0.9995e-3:
		return scaled(v*1e6, "µs")
	case v < 0.9995:
		return scaled(v*1e3, "ms")
	}
	return scaled(v, "s")
}

// plots draws all plots of the page.
func plots(points []point, now time.Time) []*plot {
	took := func(of func(*point) time.Duration) func(*point) float64 {
		return func(p *point) float64 {
			if d := of(p); d > 0 {
				return d.Seconds()
			}
			return math.NaN()
		}
	}
	var durations []quantity
	for g, name := range [groups]string{"reads", "writes", "other"} {
		durations = append(durations,
			quantity{name + ", median", name, took(func(p *point) time.Duration { return p.median[g] })},
			quantity{name + ", 99 %", name + " dashed", took(func(p *point) time.Duration { return p.p99[g] })})
	}
	return []*plot{
		draw("Throughput", "bytes of files", points, now, linear(bytesPerSecond),
			quantity{"read", "reads", func(p *point) float64 { return p.read }},
			quantity{"written", "writes", func(p *point) float64 { return p.written }}),
		draw("Calls", "that ended", points, now, linear(perSecond),
			quantity{"calls", "other", func(p *point) float64 { return p.calls }}),
		draw("Latency", "the server's time for operations, to a factor of two", points, now, decades, durations...),
	}
}
