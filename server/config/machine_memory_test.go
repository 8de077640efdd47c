package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A limit of memory above the machine's memory is refused if the user set it. If only the limits together
// are above it, the server warns.
func TestLimitsAboveTheMachinesMemory(t *testing.T) {
	there, _ := machineMemory()
	if there < 64<<20 || there > 1<<50 {
		t.Fatalf("this machine has %v", there)
	}
	for _, key := range []string{"ceiling", "state", "replies"} {
		c, err := parseConfig("f", []byte("log_level = \"info\"\n[memory]\n"+key+" = \"1T\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.CheckMemory(); err == nil || !strings.Contains(err.Error(), "f:3: "+key+" = 1T") || !strings.Contains(err.Error(), "use less, such as") {
			t.Errorf("%s = 1T: %v", key, err)
		}
	}
	for sum, warns := range map[Size]bool{there: false, there + 1: true} {
		c := &Config{Memory: Memory{Ceiling: sum - 2<<20, State: 1 << 20, Replies: 1 << 20}, origin: map[string]Error{"memory.ceiling": {}}}
		if warning, err := c.CheckMemory(); err != nil || (warning != "") != warns {
			t.Errorf("%v of %v: %v, %q", sum, there, err, warning)
		}
	}
}

// With the smallest and with the largest ceiling, the default of each other key is within the limits of that key.
func TestUsualLimitsFitEachCeiling(t *testing.T) {
	for _, ceiling := range []string{"16M", "1T"} {
		c, err := parseConfig("f", []byte("[memory]\nceiling = \""+ceiling+"\"\n"))
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			t.Errorf("ceiling = %s: %v", ceiling, err)
		}
	}
}

// The lowest limit of the process's control groups and their parents applies.
func TestControlGroupLimit(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"a/memory.max":                        "300\n",
		"a/b/memory.max":                      "max\n",
		"c/memory.max":                        "100\n",
		"c/d/memory.max":                      "200\n",
		"memory/memory.limit_in_bytes":        "9223372036854771712\n",
		"memory/docker/memory.limit_in_bytes": "400\n",
	} {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]Size{
		"0::/\n": 0, "0::/a\n": 300, "0::/a/b\n": 300, "0::/c/d\n": 100, "0::/c/d/not/there\n": 100, "": 0, "what\n": 0,
		"0::/../c\n":                   100,
		"5:cpu,memory:/docker\n0::/\n": 400,
		"5:memory:/docker\n0::/a/b\n":  300,
		"5:cpu:/docker\n":              0,
		"5:memory:/elsewhere\n":        9223372036854771712,
	} {
		got, ok := groupLimit(root, text)
		if got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %v, want %d", text, int64(got), ok, int64(want))
		}
	}
}
