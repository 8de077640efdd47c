// Package manpage writes the manual pages of the command and of its configuration file, from the help
// texts of the commands and the descriptions of the keys. So a page cannot lack a flag or a key.
package manpage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// user has the commands that any user may run, for any server. Their pages are in section 1; those of the
// other commands, which are for the administrator, are in section 8.
var user = []string{"probe", "bench", "relay"}

// Write writes the manual pages of root and its commands to the directory dir, which it makes. Each is
// in the directory of its section, as in man8/nfsrdmad.8.
func Write(dir string, root *cobra.Command) error {
	pages := map[string]string{"nfsrdmad.8": overview(root), "nfsrdmad.toml.5": configuration(root.Version)}
	for _, c := range documented(root) {
		pages[fmt.Sprintf("%s.%d", title(c), section(c))] = command(c, root.Version)
	}
	for name, text := range pages {
		in := filepath.Join(dir, "man"+name[len(name)-1:])
		if err := os.MkdirAll(in, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// documented returns the commands below c that have a page, and the commands below these.
func documented(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			all = append(append(all, sub), documented(sub)...)
		}
	}
	return all
}

// title returns the name of a command's page, such as nfsrdmad-exports-convert.
func title(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func section(c *cobra.Command) int {
	if slices.Contains(user, c.Name()) {
		return 1
	}
	return 8
}

// overview returns the page of the whole program.
func overview(root *cobra.Command) string {
	p := newPage("nfsrdmad", 8, root.Version, lowered(root.Short))
	p.heading("SYNOPSIS")
	p.WriteString(bold("nfsrdmad") + ` \fIcommand\fR [\fIflags\fR]` + "\n")
	p.heading("DESCRIPTION")
	p.text(`nfsrdmad serves directories by NFS versions 3, 4.0, 4.1 and 4.2, over TCP and over RDMA, with or without
RDMA hardware. As a service it is started by systemd, and reads nfsrdmad.toml(5).`)
	p.code("$EDITOR /etc/nfsrdmad/nfsrdmad.toml\nnfsrdmad serve --check\nsystemctl enable --now nfsrdmad")
	p.heading("COMMANDS")
	for _, c := range documented(root) {
		p.item(fmt.Sprintf(`%s(%d)`, bold(title(c)), section(c)), escaped(c.Short)+".")
	}
	p.heading("SIGNALS")
	p.item("SIGTERM, SIGINT", escaped("Answer the calls in progress, and end. A second one ends the daemon at once."))
	p.item("SIGHUP", escaped("Read the configuration again, serve the exports in it, and use the new values of some other keys: see nfsrdmad.toml(5). nfsrdmad reload does the same, and says whether it did."))
	exitStatus(p)
	p.heading("FILES")
	p.item(bold(config.DefaultConfigFile), escaped("The configuration: see nfsrdmad.toml(5)."))
	p.item(bold(config.DefaultStateDir), escaped("The state directory: the key that signs file handles, and what clients may reclaim after a restart."))
	p.item(bold("/usr/share/doc/nfsrdmad"), escaped("The guide, whose pages the manual names as running.md, mounting.md and so on."))
	p.heading("SEE ALSO")
	p.WriteString(references("nfsrdmad.toml(5)", "nfs(5)", "exports(5)", "showmount(8)"))
	return p.String()
}

func exitStatus(p *page) {
	p.heading("EXIT STATUS")
	p.item("0", "Success.")
	p.item("1", "A failure.")
	p.item("2", "Wrong arguments, or a wrong configuration.")
	p.item("3", escaped("The daemon, or bench, ended before all its work had ended."))
}

// command returns the page of one command.
func command(c *cobra.Command, version string) string {
	p := newPage(title(c), section(c), version, lowered(c.Short))
	p.heading("SYNOPSIS")
	use, _, _ := strings.Cut(c.UseLine(), " [flags]")
	p.WriteString(bold(c.CommandPath()) + escaped(strings.TrimPrefix(use, c.CommandPath())) + ` [\fIflags\fR]` + "\n")
	p.heading("DESCRIPTION")
	if c.Long != "" {
		p.text(c.Long)
	} else {
		p.text(c.Short + ".")
	}
	if c.Example != "" {
		p.heading("EXAMPLES")
		p.code(c.Example)
	}
	c.InitDefaultHelpFlag()
	p.heading("OPTIONS")
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			p.item(flagTag(f), escaped(flagText(f)))
		}
	})
	exitStatus(p)
	p.heading("SEE ALSO")
	p.WriteString(references("nfsrdmad(8)", "nfsrdmad.toml(5)"))
	return p.String()
}

func flagTag(f *pflag.Flag) string {
	tag := bold("--" + f.Name)
	if f.Shorthand != "" {
		tag = bold("-"+f.Shorthand) + ", " + tag
	}
	if takes, _ := pflag.UnquoteUsage(f); takes != "" {
		tag += ` \fI` + escaped(strings.TrimSuffix(takes, "Array")) + `\fR`
	}
	return tag
}

// flagText returns the help text of a flag, with its default unless that is empty, false or 0, or the text has it.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if slices.Contains([]string{"", "false", "0", "-1", "[]"}, f.DefValue) || strings.Contains(text, "(default") {
		return text
	}
	return fmt.Sprintf("%s (default %s)", text, f.DefValue)
}

// configuration returns nfsrdmad.toml(5).
func configuration(version string) string {
	p := newPage("nfsrdmad.toml", 5, version, "configuration of the NFS server nfsrdmad")
	p.heading("DESCRIPTION")
	p.text(`The daemon reads ` + config.DefaultConfigFile + `, or the file that --config names, at its start and at SIGHUP.
The file is TOML. Every key may be left out. Unknown keys are errors. A duration is a string with a
unit, such as "500ms", "30s" or "5m"; a size is a number of bytes, or a string such as "256M".`)
	p.text("Flags of nfsrdmad-serve(8) override the file. To check a file, run: nfsrdmad serve --check.")
	p.heading("EXAMPLE")
	p.code("log_level = \"warn\"\n\n[memory]\nceiling = \"512M\"\n\n[[export]]\npath = \"/srv/data\"\nname = \"/data\"\noptions = \"rw,clients=192.0.2.0/24\"")
	p.heading("TOP LEVEL")
	table := ""
	for _, k := range config.Keys() {
		in, name, dotted := strings.Cut(k.Name, ".")
		if !dotted {
			in, name = "", k.Name
		}
		if in != table {
			table = in
			if in = "[" + in + "]"; table == "export" {
				in = "[[export]]"
			}
			p.heading(in)
		}
		changes := "A change needs a restart."
		if k.Reloads {
			changes = "A reload applies a change."
		}
		p.item(bold(name), sentence(k.Meaning)+" "+escaped("Default: ")+markdown(k.Usual)+". "+escaped(changes))
	}
	p.heading("EXPORT OPTIONS")
	p.text("These are the words of the key options of an export, separated by commas.")
	for _, o := range config.Options() {
		p.item(bold(o.Name), sentence(o.Meaning))
	}
	p.heading("SEE ALSO")
	p.WriteString(references("nfsrdmad(8)", "nfsrdmad-serve(8)", "exports(5)"))
	return p.String()
}

// sentence returns the roff of a text of docs/configuration.md, with a full stop at its end.
func sentence(meaning string) string { return markdown(strings.TrimSuffix(meaning, ".")) + "." }

func references(pages ...string) string {
	for i, r := range pages {
		name, in, _ := strings.Cut(r, "(")
		pages[i] = bold(name) + "(" + in
	}
	return strings.Join(pages, ",\n") + "\n"
}

// lowered returns a short help text as the purpose in a page's NAME.
func lowered(short string) string { return strings.ToLower(short[:1]) + short[1:] }
