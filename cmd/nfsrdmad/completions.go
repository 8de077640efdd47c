package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A completer returns what a shell offers after the typed beginning of a value.
type completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completeValues makes the shells complete the values of all flags below root, and log-level's argument. A value that is
// none of a few words, such as a number, has no completion, instead of the names of files that cobra offers.
func completeValues(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "bool" {
				_ = c.RegisterFlagCompletionFunc(f.Name, flagValues(c, f.Name)) // fails for a second function only
			}
		})
		completeValues(c)
		if c.ValidArgsFunction == nil && !strings.Contains(c.Use, "FILE") && !strings.Contains(c.Use, "DIR") {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		if c.Name() == "log-level" {
			c.ValidArgsFunction = words(flagWords(c, "log-level")...)
		}
	}
}

// flagValues returns the completer of a flag.
func flagValues(c *cobra.Command, flag string) completer {
	switch flag {
	case "config":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
		}
	case "state-dir":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	case "exports", "keytab", "socket", "file", "svg":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		}
	case "export":
		if c.Name() == "serve" || c.Name() == "doctor" {
			return exportValues
		}
	}
	return words(flagWords(c, flag)...)
}

// flagWords returns the words that a flag accepts, if these are few.
func flagWords(c *cobra.Command, flag string) []string {
	switch flag {
	case "transport":
		if c.Name() == "probe" {
			return []string{"tcp", "rdma", "both"}
		}
		return []string{"tcp", "rdma"}
	case "sec":
		return []string{"sys", "krb5", "krb5i", "krb5p"}
	case "nfs":
		return []string{"3", "4.1", "4.2"}
	case "workload":
		all := append(bench.Workloads(), bench.Workloads4()...)
		slices.Sort(all)
		return slices.Compact(all)
	case "rdma-version":
		return []string{string(client.RDMAVersion1), string(client.RDMAVersion2), string(client.RDMANewest)}
	case "rdma-provider":
		if c.Name() != "serve" && c.Name() != "doctor" {
			return providers.Names()
		}
	}
	for _, k := range config.Keys() {
		if k.Flag == flag {
			return k.Choices
		}
	}
	return nil
}

func words(all ...string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return beginning(typed, all), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning returns the elements of all that begin with typed.
func beginning(typed string, all []string) (some []string) {
	for _, word := range all {
		if strings.HasPrefix(word, typed) {
			some = append(some, word)
		}
	}
	return some
}

// exportValues completes the directory of --export, and its options after a comma.
func exportValues(_ *cobra.Command, _ []string, typed string) (all []string, how cobra.ShellCompDirective) {
	comma := strings.LastIndex(typed, ",")
	if comma < 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	for _, o := range config.Options() {
		name, _, takes := strings.Cut(o.Name, "=")
		if takes {
			name += "="
		}
		all = append(all, typed[:comma+1]+name)
	}
	return beginning(typed, all), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
