package client

import (
	"encoding/json"
	"testing"
)

// A flavor in a report is written to JSON and read back.
func TestFlavorsAsText(t *testing.T) {
	for flavor := range flavorNames {
		b, err := json.Marshal(flavor)
		if err != nil {
			t.Fatal(err)
		}
		var back Flavor
		if err := json.Unmarshal(b, &back); err != nil || back != flavor {
			t.Errorf("%s: %v, %v", b, back, err)
		}
	}
	var f Flavor
	if err := json.Unmarshal([]byte(`"krb4"`), &f); err == nil {
		t.Errorf("krb4 is %v", f)
	}
}
