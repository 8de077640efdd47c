// Command setup installs the Debian packages and the kernels that the kernel lab and the other
// tests need. It does nothing if everything is present.
//
//	go run ./test/kernel/setup [packages|uml|6.1|6.12]...
//
// Without arguments it sets up everything.
package main

import (
	"fmt"
	"os"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

func main() {
	kernels := []lab.Kernel{}
	for _, name := range os.Args[1:] {
		if name == "packages" {
			continue
		}
		kernel, err := lab.ParseKernel(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "setup:", err)
			os.Exit(2)
		}
		kernels = append(kernels, kernel)
	}
	if len(os.Args) == 1 {
		kernels = lab.Kernels
	}
	if err := lab.Setup(os.Stderr, kernels...); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}
