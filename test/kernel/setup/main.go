// Command setup installs the Debian packages, the kernels and the systemd that the kernel lab and
// the other tests need. It does nothing if everything is present.
//
//	go run ./test/kernel/setup [packages|uml|uml-7.2|6.1|6.12|systemd-254|images]...
//
// Without arguments it sets up everything.
package main

import (
	"fmt"
	"os"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

func main() {
	parts := []lab.Part{}
	for _, name := range os.Args[1:] {
		if name == "packages" {
			continue
		}
		part, err := lab.ParsePart(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "setup:", err)
			os.Exit(2)
		}
		parts = append(parts, part)
	}
	if len(os.Args) == 1 {
		parts = lab.Parts()
	}
	if err := lab.Setup(os.Stderr, parts...); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}
