package conformance

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// marks are the words that may begin the reason of a row without a test. A colon and an
// explanation follow. docs/conformance.md explains the marks to readers.
var marks = []string{"by construction", "host", "not built", "not used", "untestable"}

// A number is the number of a requirement, for example IW-12.
type number struct {
	prefix string // with the dash
	n      int
}

func (n number) String() string { return fmt.Sprintf("%s%d", n.prefix, n.n) }

// named matches a number or a range of numbers: IW-12, V1-30..34. A number must not be part of a
// longer name.
var named = regexp.MustCompile(`(?:^|[^-\w])((?:IW|V1|V2|XA|P|L|A)-|V2-N)(\d+)(?:\.\.(?:(?:IW|V1|V2|XA|P|L|A)-|V2-N)?(\d+))?\b`)

// numbers returns the numbers in a text.
func numbers(text string) []number {
	var all []number
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last && n < first+1000; n++ {
			all = append(all, number{m[1], n})
		}
	}
	return all
}

// A row is one row of a table: one requirement.
type row struct {
	number
	where  string // file and line
	source string // RFC and section
	text   string
	tests  []citation
	reason string // a mark, a colon and an explanation, or empty
	device string // the content of the cell that names the devices of the test, or empty
}

// A citation names a test by its name and by the end of its directory's path.
type citation struct{ dir, test string }

func (c citation) String() string { return c.dir + "." + c.test }

var (
	isNumber = regexp.MustCompile(`^(?:(?:IW|V1|V2|XA|P|L|A)-|V2-N)\d+$`)
	// isSource matches one or more sections of RFCs, or of the draft of RPC-over-RDMA version 2.
	isSource   = regexp.MustCompile(`^(?:RFC \d{4}|rpcrdma-version-two-07) §[\w.()/]+(?:, (?:RFC \d{4} )?§[\w.()/]+)*$`)
	isCitation = regexp.MustCompile(`^([a-z][\w/]*)\.(\w+)$`)
)

// tables returns the rows of the tables in docs/conformance-*.md, and the faults in the form of
// these tables.
func tables(repository fs.FS) (rows []row, faults []finding) {
	files, err := fs.Glob(repository, "docs/conformance-*.md")
	if err != nil || len(files) == 0 {
		return nil, []finding{{"table", "docs", "there is no conformance-*.md"}}
	}
	for _, file := range files {
		text, err := fs.ReadFile(repository, file)
		if err != nil {
			return nil, []finding{{"table", file, err.Error()}}
		}
		for i, line := range strings.Split(string(text), "\n") {
			where := fmt.Sprintf("%s:%d", path.Base(file), i+1)
			cells, ok := cellsOf(line)
			if !ok || !isNumber.MatchString(cells[0]) {
				continue
			}
			r, wrong := parseRow(cells, where)
			for _, w := range wrong {
				faults = append(faults, finding{"row", where, cells[0] + ": " + w})
			}
			rows = append(rows, r)
		}
	}
	return rows, faults
}

// cellsOf returns the trimmed cells of a line of a table. The bool is false if the line is not part
// of a table.
func cellsOf(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil, false
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, true
}

// parseRow parses the cells of a row: number, source, role, requirement and proof, and device in
// tables that have this cell.
func parseRow(cells []string, where string) (r row, wrong []string) {
	r.number, r.where = numbers(cells[0])[0], where
	switch len(cells) {
	case 5:
	case 6:
		r.device = cells[5]
	default:
		return r, []string{fmt.Sprintf("has %d cells, not number, source, who, requirement, proof and perhaps device", len(cells))}
	}
	r.source, r.text = cells[1], cells[3]
	if !isSource.MatchString(r.source) {
		wrong = append(wrong, fmt.Sprintf("the source %q is not of the form RFC 5040 §4.1", r.source))
	}
	if len(strings.Fields(r.text)) < 4 || !strings.HasSuffix(r.text, ".") {
		wrong = append(wrong, fmt.Sprintf("%q is no sentence that says what is required", r.text))
	}
	tests := cells[4]
	for _, m := range marks {
		if i := strings.Index(tests, m+":"); i == 0 || i > 1 && tests[i-2:i] == "; " {
			tests, r.reason = strings.TrimSuffix(strings.TrimSpace(tests[:i]), ";"), tests[i:]
			if len(strings.Fields(r.reason[len(m)+1:])) < 3 {
				wrong = append(wrong, fmt.Sprintf("the reason %q says too little", r.reason))
			}
			break
		}
	}
	for _, word := range strings.Split(tests, ",") {
		word = strings.TrimSpace(word)
		if m := isCitation.FindStringSubmatch(word); m != nil {
			r.tests = append(r.tests, citation{m[1], m[2]})
		} else if word != "" {
			wrong = append(wrong, fmt.Sprintf("%q is neither package.Test nor a reason with a mark (%s)", word, strings.Join(marks, ", ")))
		}
	}
	if len(r.tests) == 0 && r.reason == "" && len(wrong) == 0 {
		wrong = append(wrong, "has neither a test nor a reason")
	}
	return r, wrong
}

// promised returns the numbers that the index lists, and the faults of the index.
func promised(repository fs.FS) (all []number, faults []finding) {
	const index = "docs/conformance.md"
	text, err := fs.ReadFile(repository, index)
	if err != nil {
		return nil, []finding{{"index", index, err.Error()}}
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells, ok := cellsOf(line); ok {
			all = append(all, numbers(cells[0])...)
		}
	}
	if len(all) == 0 {
		faults = append(faults, finding{"index", index, "no line of its table begins with numbers (IW-1..128)"})
	}
	files, _ := fs.Glob(repository, "docs/conformance-*.md")
	for _, file := range files {
		if !strings.Contains(string(text), "("+path.Base(file)+")") {
			faults = append(faults, finding{"index", index, "does not link to " + path.Base(file)})
		}
	}
	return all, faults
}
