package main

import (
	"io"
	"strings"
	"testing"
)

// For a command or a flag that does not exist, the error names the one that was probably meant.
func TestMistypedCommandsAndFlags(t *testing.T) {
	for line, says := range map[string]string{
		"server --export /srv":    "did you mean 'nfsrdmad serve'?",
		"srve":                    "did you mean 'nfsrdmad serve'?",
		"docter":                  "did you mean 'nfsrdmad doctor'?",
		"mount":                   "the commands are",
		"serve -export /srv":      "unknown flag -export: did you mean --export?",
		"serve --exprot /srv":     "unknown flag --exprot: did you mean --export?",
		"serve --statedir /srv":   "did you mean --state-dir?",
		"serve --state_dir=/srv":  "did you mean --state-dir?",
		"serve --loglevel debug":  "did you mean --log-level?",
		"serve --show-mount":      "did you mean --show-mounts?",
		"serve --conf /etc/x":     "did you mean --config?",
		"serve --port 2049":       "see 'nfsrdmad serve --help'",
		"probe --mountport 2049":  "did you mean --mount-port?",
		"bench --keytabs /etc/kt": "did you mean --keytab?",
	} {
		root, args := rootCommand(), strings.Fields(line)
		err := unknownCommand(root, args)
		if err == nil {
			root.SetArgs(args)
			root.SetOut(io.Discard)
			err = root.Execute()
		}
		if err == nil || !strings.Contains(err.Error(), says) || exitStatus(err) != 2 {
			t.Errorf("%s: %v", line, err)
		}
	}
}
