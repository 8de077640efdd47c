package server

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// Check tells whether a daemon with a checked configuration could serve on this machine, and which exports it would
// serve to which clients. It writes a line for each capability, export and warning. missing is the number of lines that
// name something which the daemon could not serve. It takes no port and no lock, makes no file, and disturbs no daemon
// that runs. The error joins the errors of the configuration that only the machine shows.
func Check(w io.Writer, cfg *config.Config) (missing int, err error) {
	warning, memory := cfg.CheckMemory()
	if err := errors.Join(cfg.CheckListening(), memory); err != nil {
		return 0, err
	}
	if len(cfg.Exports) == 0 {
		return 0, cfg.At(errNoExports)
	}
	missing = printFindings(w, Findings(cfg))
	if warning != "" {
		fmt.Fprintf(w, "%-8s %-28s %s\n", "warning", "memory", warning)
	}
	for i, c := range exports.Check(cfg) {
		e := &cfg.Exports[i]
		name, _ := e.ExportName() // cfg was checked
		what := "export " + name
		if c.Err != nil {
			missing++
			fmt.Fprintf(w, "%-8s %-28s %v\n", "no", what, c.Err)
			continue
		}
		if c.Stopped {
			fmt.Fprintf(w, "%-8s %-28s stopped by the administrator, and not served until 'nfsrdmad exports start %s'; %s is not looked at\n", "warning", what, name, e.Path.Path)
			continue
		}
		var as export.Export
		e.Options.Apply(&as)
		to := "to every client"
		if len(as.Clients) > 0 {
			to = "to " + strings.Trim(fmt.Sprint(as.Clients), "[]")
		}
		fmt.Fprintf(w, "%-8s %-28s %s, %s, with %s\n", "yes", what, e.Path.Path, to, e.Options.String())
		for _, text := range c.Warnings {
			fmt.Fprintf(w, "%-8s %-28s %s\n", "warning", what, text)
		}
	}
	return missing, nil
}

// servedOptions returns the options of the exports that are served, with the exports' names (and those in the tree of
// version 4, where they differ), and the names of those that every client may change.
func servedOptions(table *export.Table) (options, open []string) {
	for _, e := range table.All() {
		shown := e.Name
		if path := table.Tree().PathOf(e.Name); path != "" && path != e.Name {
			shown += " (version 4: " + path + ")"
		}
		options = append(options, shown+" "+config.OptionsOf(e))
		if config.OpenToAll(e) {
			open = append(open, e.Name)
		}
	}
	return options, open
}
