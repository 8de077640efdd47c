package rpc

import "fmt"

// table is the programs served, immutable: Register puts a new one in place.
type table struct {
	programs []*programRow
}

type programRow struct {
	Program
	laner     Laner // nil: it is none
	number    uint32
	low, high uint32
	versions  []versionRow
}

type versionRow struct {
	number uint32
	rows   []procedureRow
}

type procedureRow struct {
	*Procedure
	counts counts
}

// maxVersions bounds the range of versions of one program.
const maxVersions = 64

// Register serves p from now on. It panics where the program is served
// already or says nonsense about itself.
func (s *Server) Register(p Program) {
	row := &programRow{Program: p, number: p.Number()}
	row.laner, _ = p.(Laner)
	row.low, row.high = p.Versions()
	if row.high < row.low || row.high-row.low >= maxVersions {
		panic(fmt.Sprintf("rpc: program %d serves versions %d to %d", row.number, row.low, row.high))
	}
	for v := row.low; ; v++ {
		if b := p.Binding(v); b != nil {
			vr := versionRow{number: v, rows: make([]procedureRow, len(b.Procedures))}
			for i := range b.Procedures {
				vr.rows[i].Procedure = &b.Procedures[i]
			}
			row.versions = append(row.versions, vr)
		}
		if v == row.high {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	if old.find(row.number) != nil {
		panic(fmt.Sprintf("rpc: program %d is registered already", row.number))
	}
	now := &table{programs: append(append([]*programRow(nil), old.programs...), row)}
	s.table.Store(now)
}

func (t *table) find(number uint32) *programRow {
	for _, p := range t.programs {
		if p.number == number {
			return p
		}
	}
	return nil
}

func (p *programRow) find(version uint32) *versionRow {
	for i := range p.versions {
		if p.versions[i].number == version {
			return &p.versions[i]
		}
	}
	return nil
}

// find gives the procedure's row, or nil where it does not exist.
func (v *versionRow) find(procedure uint32) *procedureRow {
	if uint64(procedure) >= uint64(len(v.rows)) || v.rows[procedure].Name == "" {
		return nil
	}
	return &v.rows[procedure]
}
