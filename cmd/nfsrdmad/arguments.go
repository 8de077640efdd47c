package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArgs refuses all arguments that are not flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q is not understood; see '%s --help'", args[0], c.CommandPath())}
	}
	return nil
}
