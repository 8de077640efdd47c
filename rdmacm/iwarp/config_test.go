package iwarp

import "testing"

// Each CRC mode has a name for configurations. ParseCRCMode refuses any other text.
func TestCRCModesAsText(t *testing.T) {
	for text, want := range map[string]CRCMode{"peer": CRCPeer, "on": CRCOn, "off": CRCOff} {
		if m, err := ParseCRCMode(text); err != nil || m != want || m.String() != text {
			t.Errorf("%q is %v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "On", "auto", "CRCMode(3)", "peer "} {
		if m, err := ParseCRCMode(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}
