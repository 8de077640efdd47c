package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// transport is the package whose tests run over a device in memory. listed is the name of that
// package's table of the tests that also run over the software RNIC.
const (
	transport = "transport/rdma"
	listed    = "overBoth"
)

// judgeDevice returns a description of the fault in a row's device cell, or "". The cell must be
// empty unless the row cites a test of the transport. "both" means that a cited test runs over the
// device in memory and over the software RNIC. The cell must be "both" if one of the cited tests is
// in the table that listed names, or belongs to package rdmatest, the suite that runs over every
// device. Otherwise it must be "memory: " and the reason why the tests do not run over the software
// RNIC.
func (c *code) judgeDevice(r row) string {
	var cites, both bool
	for _, cited := range r.tests {
		both = both || cited.dir == "rdmatest" // every device runs this suite
		if !c.dirs[transport] || !strings.HasSuffix("/"+transport, "/"+cited.dir) {
			continue
		}
		cites = true
		for _, d := range c.declarations[name{transport, listed}] {
			both = both || slices.Contains(d.uses, name{transport, cited.test})
		}
	}
	reason, isReason := strings.CutPrefix(r.device, "memory: ")
	switch {
	case !cites && r.device != "":
		return fmt.Sprintf("names the device %q and cites no test of the transport", r.device)
	case !cites, both && r.device == "both":
		return ""
	case both:
		return fmt.Sprintf("names the device %q, and one of its tests runs over both", r.device)
	case !isReason || len(strings.Fields(reason)) < 3:
		return fmt.Sprintf("names the device %q, not memory, a colon and why its tests do not run over the software RNIC", r.device)
	}
	return ""
}
