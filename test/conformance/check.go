package conformance

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// A finding is a fault in the repository: the rule of this package that is broken, the place, and
// a description.
type finding struct{ rule, where, what string }

func (f finding) String() string { return f.where + ": " + f.what }

// check compares a repository's conformance tables with its code. It does not read the directories
// that leftOut lists.
func check(repository fs.FS, leftOut ...string) []finding {
	all, faults := promised(repository)
	rows, more := tables(repository)
	faults = append(faults, more...)
	c, more := readCode(repository, leftOut...)
	faults = append(faults, more...)

	byNumber := make(map[number]string)
	for _, r := range rows {
		if before, twice := byNumber[r.number]; twice {
			faults = append(faults, finding{"twice", r.where, fmt.Sprintf("%v has a row at %s already", r.number, before)})
		}
		byNumber[r.number] = r.where
		if !slices.Contains(all, r.number) {
			faults = append(faults, finding{"index", r.where, fmt.Sprintf("%v is not among the numbers of docs/conformance.md", r.number)})
		}
		if what := c.judgeDevice(r); what != "" {
			faults = append(faults, finding{"device", r.where, fmt.Sprintf("%v %s", r.number, what)})
		}
		for _, cited := range r.tests {
			if rule, what := c.judge(cited, r.number); rule != "" {
				faults = append(faults, finding{rule, r.where, fmt.Sprintf("%v cites %v: %s", r.number, cited, what)})
			}
		}
	}
	for _, n := range all {
		if byNumber[n] == "" {
			faults = append(faults, finding{"missing", "docs/conformance.md", fmt.Sprintf("%v has no row in any table", n)})
		}
	}
	for n, where := range c.mentions {
		if byNumber[n] == "" {
			faults = append(faults, finding{"unknown", where, fmt.Sprintf("names %v, which no table has", n)})
		}
	}
	slices.SortFunc(faults, func(a, b finding) int { return strings.Compare(a.where+a.what, b.where+b.what) })
	return faults
}

// judge checks one citation of a test in the row with the number n. It returns the rule that the
// citation breaks, and a description of the fault. Both are empty if there is no fault.
func (c *code) judge(cited citation, n number) (rule, what string) {
	var dirs []string
	for dir := range c.dirs {
		if dir == cited.dir || strings.HasSuffix(dir, "/"+cited.dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	switch {
	case len(dirs) == 0:
		return "package", "there is no such package"
	case len(dirs) > 1:
		return "package", "which of " + strings.Join(dirs, ", ") + "?"
	}
	at := name{dirs[0], cited.test}
	found := c.declarations[at]
	if len(found) == 0 || !found[0].isFunc {
		return "gone", "there is no such function"
	}
	isTest := strings.HasPrefix(cited.test, "Test") || strings.HasPrefix(cited.test, "Fuzz")
	switch {
	case isTest && !found[0].inTest, !isTest && !c.ofSuite(at):
		return "gone", "it is neither a test of a _test.go file nor the function of a suite that a test calls"
	case found[0].skipped:
		return "skipped", "it skips itself, always"
	case !c.canFail(at):
		return "cannot fail", "nothing in it, nor in what it calls, makes a test fail"
	case !c.carries(at, n):
		return "not carried", "it does not name the number in its doc comment, its body, or a table that it uses"
	}
	return "", ""
}

// reach calls visit with the declarations that a name refers to, directly or through other
// declarations, until visit returns true. It begins with the declarations of the name itself.
func (c *code) reach(at name, visit func(name, *declaration) (stop bool)) {
	seen := map[name]bool{at: true}
	for queue := []name{at}; len(queue) > 0; queue = queue[1:] {
		for _, d := range c.declarations[queue[0]] {
			if visit(queue[0], d) {
				return
			}
			for _, used := range d.uses {
				if !seen[used] {
					seen[used] = true
					queue = append(queue, used)
				}
			}
		}
	}
}

func (c *code) canFail(at name) (can bool) {
	c.reach(at, func(_ name, d *declaration) bool {
		can = can || d.fails
		return can
	})
	return can
}

// carries reports whether the declaration of a test, or of a table that it uses, contains the
// number n.
func (c *code) carries(at name, n number) bool {
	for _, d := range c.declarations[at] {
		if slices.Contains(d.numbers, n) {
			return true
		}
		for _, used := range d.uses {
			for _, table := range c.declarations[used] {
				if !table.isFunc && slices.Contains(table.numbers, n) {
					return true
				}
			}
		}
	}
	return false
}

// ofSuite reports whether a function belongs to a test suite. It does if an exported function of
// its package refers to it, directly or through other functions, and a test in another package
// calls that exported function.
func (c *code) ofSuite(at name) bool {
	called := make(map[string]bool) // exported names of the package that tests of other packages use
	for _, declared := range c.declarations {
		for _, d := range declared {
			for _, used := range d.uses {
				if d.inTest && used.dir == at.dir && !strings.HasPrefix(d.where, at.dir+"/") && ast.IsExported(used.ident) {
					called[used.ident] = true
				}
			}
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(called)) {
		found := false
		c.reach(name{at.dir, entry}, func(n name, d *declaration) bool {
			found = found || n == at && !d.inTest
			return found
		})
		if found {
			return true
		}
	}
	return false
}
