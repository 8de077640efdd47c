package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/cmd/nfsrdmad/manpage"
)

// manPagesCommand is for those who make packages, as 'nfsrdmad completion' is. The help does not list it.
func manPagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manpages DIR",
		Short:  "Write the manual pages to a directory",
		Hidden: true,
		Args:   oneArgument("a directory"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := manpage.Write(args[0], c.Root()); err != nil {
				return fmt.Errorf("writing the manual pages: %w", err)
			}
			return nil
		},
	}
}
