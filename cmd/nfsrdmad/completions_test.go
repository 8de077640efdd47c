package main

import (
	"slices"
	"strings"
	"testing"
)

// completions returns what a shell offers after these words; the last one is the word being typed.
func completions(t *testing.T, line ...string) []string {
	t.Helper()
	root := rootCommand()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&strings.Builder{})
	root.SetArgs(append([]string{"__completeNoDesc"}, line...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(out.String()), "\n")
	return all[:len(all)-1] // the last line is the directive
}

func TestCompletionsOfValues(t *testing.T) {
	for _, c := range []struct {
		line []string
		want []string
	}{
		{[]string{"serve", "--log-level", ""}, []string{"info", "debug", "warn", "error"}},
		{[]string{"serve", "--rdma-provider", ""}, []string{"auto", "iwarp", "verbs"}},
		{[]string{"serve", "--tcp", ""}, nil},
		{[]string{"serve", "--config", ""}, []string{"toml"}},
		{[]string{"serve", "--export", "/srv:/data,rw,root_"}, []string{"/srv:/data,rw,root_squash"}},
		{[]string{"serve", "--export", "/srv,anonu"}, []string{"/srv,anonuid="}},
		{[]string{"probe", "--transport", ""}, []string{"tcp", "rdma", "both"}},
		{[]string{"bench", "--transport", ""}, []string{"tcp", "rdma"}},
		{[]string{"bench", "--nfs", "4"}, []string{"4.1", "4.2"}},
		{[]string{"bench", "--sec", "krb5"}, []string{"krb5", "krb5i", "krb5p"}},
		{[]string{"relay", "--rdma-provider", ""}, []string{"iwarp", "verbs"}},
		{[]string{"relay", "--rdma-version", ""}, []string{"1", "2", "newest"}},
		{[]string{"bench", "--ops", ""}, nil},
		{[]string{"bench", "--workload", "readd"}, []string{"readdir", "readdirplus"}},
		{[]string{"log-level", "w"}, []string{"warn"}},
	} {
		got := completions(t, c.line...)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: completed by %q, want %q", c.line, got, c.want)
		}
	}
}
