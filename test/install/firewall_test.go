package install

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// The service of firewalld and the profile of ufw open the ports on which the daemon listens by default.
func TestFirewallsKnowThePorts(t *testing.T) {
	want := []string{fmt.Sprintf("%d/tcp", config.DefaultTCPPort), fmt.Sprintf("%d/udp", config.DefaultTCPPort), fmt.Sprintf("%d/tcp", config.DefaultRDMAPort)}
	b, err := os.ReadFile("../../packaging/firewalld.xml")
	if err != nil {
		t.Fatal(err)
	}
	var service struct {
		Ports []struct {
			Protocol string `xml:"protocol,attr"`
			Port     string `xml:"port,attr"`
		} `xml:"port"`
	}
	if err := xml.Unmarshal(b, &service); err != nil {
		t.Fatal(err)
	}
	var opened []string
	for _, p := range service.Ports {
		opened = append(opened, p.Port+"/"+p.Protocol)
	}
	if !slices.Equal(opened, want) {
		t.Errorf("firewalld opens %q, want %q", opened, want)
	}
	if b, err = os.ReadFile("../../packaging/ufw.profile"); err != nil {
		t.Fatal(err)
	}
	if line := "\nports=" + strings.Join(want, "|") + "\n"; !strings.Contains(string(b), line) {
		t.Errorf("ufw's profile nfsrdmad lacks the line %q", strings.TrimSpace(line))
	}
}
