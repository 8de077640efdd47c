package config

// A Described is a key of the configuration, or an option of an export, for its documentation.
type Described struct {
	// Name is the dotted key, such as "memory.ceiling", or an option with what it takes: "anonuid=N".
	Name string
	// Usual is the default of a key. Usual and Meaning are Markdown, as in docs/configuration.md.
	Usual, Meaning string
	// Choices are the words that the key accepts, if it accepts no others.
	Choices []string
	// Reloads is true if a reload applies a change of the key to the running daemon. Changes of other
	// keys take effect at the next start.
	Reloads bool
	// Flag is the name of the flag that overrides the key, or "".
	Flag string
}

// Keys describes the keys of the configuration file, in their order in docs/configuration.md.
func Keys() []Described {
	all := make([]Described, len(settings))
	for i, s := range settings {
		all[i] = Described{Name: s.key, Usual: s.usual, Meaning: s.meaning, Choices: s.choices, Reloads: s.reloads}
		if s.flag != "" {
			all[i].Flag = s.flagName()
		}
	}
	return all
}

// Options describes the options of an export, in their order in docs/configuration.md.
func Options() []Described {
	all := make([]Described, len(exportOptions))
	for i, o := range exportOptions {
		all[i] = Described{Name: o.usage(), Meaning: o.meaning}
	}
	return all
}
