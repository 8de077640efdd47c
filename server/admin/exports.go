package admin

// An Export is an export as it is in force, or one of the configuration that is not served.
type Export struct {
	Name string `json:"name"`
	// Path is the directory on the server; "" if a program provides the file system.
	Path string `json:"path,omitempty"`
	// State is "served"; "not served"; or "kept", if the directory that the export had before is served, because the present
	// one at its path cannot be opened. Fault says why.
	State string `json:"state"`
	Fault string `json:"fault,omitempty"`
	// Options are all options in force, as the configuration has them. Everybody is true if clients= does not restrict
	// which clients it serves.
	Options   string `json:"options,omitempty"`
	Everybody bool   `json:"everybody"`
}

func (*Export) heads() []any { return []any{"NAME", "STATE", "CLIENTS", "PATH", "OPTIONS"} }

func (e *Export) row() []any {
	clients, options := "see options", e.Options
	switch {
	case e.Options == "":
		clients, options = "-", "-"
	case e.Everybody:
		clients = "everybody"
	}
	if e.Fault != "" {
		options += " (" + e.Fault + ")"
	}
	return []any{quoted(e.Name), e.State, clients, quoted(e.Path), options}
}
