package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

func convertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "convert [FILE]",
		Short: "Print the exports of a file such as /etc/exports as [[export]] of the configuration",
		Long: `Print the exports of a file in the form of exports(5), by default /etc/exports, as
[[export]] of the configuration file. Options without effect here are comments in the
output. Host names are replaced by their present addresses.

If a client or an export cannot be served as the file says, it is left out, a line
on standard error says why, and the exit status is 1.`,
		Args: atMostOne("one file"),
		RunE: func(c *cobra.Command, args []string) error {
			file := cmp.Or(append(args, "/etc/exports")...)
			b, err := os.ReadFile(file)
			if err != nil {
				return usageError{fmt.Errorf("cannot read %s: %w: name the file to convert", file, config.Cause(err))}
			}
			if refused := printConverted(os.Stdout, os.Stderr, file, config.ConvertExports(string(b), config.LookupHost)); refused > 0 {
				return errors.New("some clients or exports are left out: see the lines above")
			}
			return nil
		},
	}
}

// printConverted writes exports to out as [[export]] tables, with the notes as comments, and the notes on what is left
// out to left as well. It returns the number of lines that it wrote to left.
func printConverted(out, left io.Writer, file string, all []config.Converted) (refused int) {
	for _, e := range all {
		for _, n := range e.Notes {
			fmt.Fprintf(out, "# %s:%d: %s\n", file, n.Line, n.Text)
			if n.Refused {
				refused++
				fmt.Fprintf(left, "%s:%d: %s\n", file, n.Line, n.Text)
			}
		}
		if !e.Refused {
			fmt.Fprintf(out, "[[export]]\npath = %q\noptions = %q\n", e.Path, e.Options)
		}
		fmt.Fprintln(out)
	}
	return refused
}
