package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// unknownCommand returns an error if the first argument is no command and no flag. cobra would report
// the flags after it instead, which the root command does not have.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "__") {
		return nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var names []string
	for _, c := range root.Commands() {
		if c.Name() == args[0] {
			return nil
		}
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	hint := "the commands are " + strings.Join(names, ", ")
	if near := config.Nearest(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean 'nfsrdmad %s'?", near)
	}
	return usageError{fmt.Errorf("unknown command %q: %s", args[0], hint)}
}

// flagError returns the error for a flag that cannot be parsed, with the flag that was probably meant.
func flagError(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())}
	}
	name, dashes := missing.GetSpecifiedName(), "--"
	if short := missing.GetSpecifiedShortnames(); short != "" { // -name
		name, dashes = short, "-"
	}
	name, _, _ = strings.Cut(name, "=")
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := config.Nearest(name, names); near != "" {
		return usageError{fmt.Errorf("unknown flag %s%s: did you mean --%s?", dashes, name, near)}
	}
	return usageError{fmt.Errorf("unknown flag %s%s; see '%s --help'", dashes, name, c.CommandPath())}
}
