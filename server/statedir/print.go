package statedir

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes what is in the directory, in words.
func (c *Contents) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	defer w.Flush()
	line := func(name string, value ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, strings.TrimSuffix(fmt.Sprintln(value...), "\n"))
	}
	line("state directory", c.Dir)
	line("in use", map[bool]string{true: "yes, by a daemon", false: "no"}[c.Used])
	line("starts so far", c.Starts)
	line("exports remembered", len(c.Exports), strings.Join(c.Exports, ", "))
	line("exports stopped", len(c.Stopped), plain(strings.Join(c.Stopped, ", ")))
	line("clients that may reclaim", len(c.Clients))
	for _, one := range c.Clients {
		line("", one.Kind, one.Address, one.Name)
	}
	fmt.Fprint(w, "\nFILE\tSIZE\tCHANGED\tWHAT\n")
	for _, f := range c.Files {
		what := f.What
		if f.Format > 0 {
			what += fmt.Sprintf(" (format %d)", f.Format)
		}
		if f.Problem != "" {
			what += "; PROBLEM: " + f.Problem
		}
		size, changed := "-", "-" // of a file that is missing, and of the directory itself
		if !f.Modified.IsZero() {
			size, changed = strconv.FormatInt(f.Size, 10), f.Modified.Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(f.Name), size, changed, what)
	}
}

// PrintProblems writes each problem with its remedy, or that there is none.
func (c *Contents) PrintProblems(out io.Writer) {
	problems := c.Problems()
	for _, f := range problems {
		fmt.Fprintf(out, "%s: %s: %s\n", plain(f.Name), f.Problem, f.Remedy)
	}
	if len(problems) == 0 {
		fmt.Fprintf(out, "%s: nothing is wrong with its %d files\n", c.Dir, len(c.Files))
	}
}
