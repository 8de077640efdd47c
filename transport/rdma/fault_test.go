package rdma

import (
	"regexp"
	"testing"
)

// Each fault has a row with a name for its counter and a text. The row of a fault that is
// answered with RDMA_ERROR names the rule that requires the answer.
func TestEveryFaultHasARow(t *testing.T) {
	names, texts := make(map[string]bool), make(map[string]bool)
	name := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	section := regexp.MustCompile(`^(RFC (8166|8167|8797)|rpcrdma-version-two-07) §[0-9]+(\.[0-9]+)*$`)
	count := 0
	for f := range Faults() {
		row := faults[f]
		count++
		if !name.MatchString(row.name) || names[row.name] || row.text == "" || texts[row.text] {
			t.Errorf("fault %d is called %q, and says %q", f, row.name, row.text)
		}
		names[row.name], texts[row.text] = true, true
		answered := row.answer == answerVers || row.answer == answerChunk || row.answer == answerError
		if row.section == "" && answered || row.section != "" && !section.MatchString(row.section) {
			t.Errorf("%v stands in %q", f, row.section)
		}
	}
	if count != len(faults)-1 || count >= mostFaults {
		t.Errorf("%d faults of %d, %d at most", count, len(faults)-1, mostFaults-1)
	}
}
