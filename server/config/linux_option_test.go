package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/doctables"
)

// docs/migration.md has a row for every option of exports(5) that differs from those here, without the advice to
// leave it out, which convert follows.
func TestLinuxOptionsAreDocumented(t *testing.T) {
	doctables.Hold(t, "../../docs/migration.md", func(_, column string) (rows []string) {
		if column != "option of exports(5)" {
			return nil
		}
		for _, o := range linuxOptions {
			does := "ignores it"
			if o.refused {
				does = "leaves the export out"
			}
			why := strings.ReplaceAll(o.why, "docs/security.md#handles", "[security.md](security.md#handles)")
			for _, advice := range []string{": leave the option out", ", and leave nohide out"} {
				why = strings.TrimSuffix(why, advice)
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", o.name, does, why))
		}
		return rows
	})
}
