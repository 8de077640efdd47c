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

// oneArgument requires exactly one argument.
func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("'%s' takes %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}
