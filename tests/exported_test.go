package tests

import (
	"cmp"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// api is what a package exports, a line for each identifier, field and method, and those of them whose types lead into
// an internal package. It looks at the text of one package alone: the type of a variable or constant that is declared
// without one is not known.
func api(t *testing.T, importPath string, sources map[string]string) (lines, internals []string) {
	fset := token.NewFileSet()
	p := &apiPackage{name: path.Base(importPath), fset: fset, imports: map[string]map[string]string{},
		types: map[string]*ast.TypeSpec{}, methods: map[string][]*ast.FuncDecl{}}
	var files []*ast.File
	for name, source := range sources {
		raw, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		p.add(name, raw)
		file, err := parser.ParseFile(fset, name, source, parser.ParseComments) // package doc takes its files apart
		require.NoError(t, err)
		files = append(files, file)
	}
	docs, err := doc.NewFromFiles(fset, files, importPath)
	require.NoError(t, err)
	p.values(docs.Consts)
	p.values(docs.Vars)
	p.funcs(docs.Funcs)
	for _, typ := range docs.Types {
		p.typ(typ)
	}
	return p.lines, p.internals
}

type apiPackage struct {
	name             string
	fset             *token.FileSet
	imports          map[string]map[string]string // by file: name -> path
	types            map[string]*ast.TypeSpec     // all, as they stand in the source
	methods          map[string][]*ast.FuncDecl
	lines, internals []string
}

// add notes what a file imports and declares.
func (p *apiPackage) add(name string, file *ast.File) {
	imports := map[string]string{}
	for _, s := range file.Imports {
		of := strings.Trim(s.Path.Value, `"`)
		as := path.Base(of)
		if s.Name != nil {
			as = s.Name.Name
		}
		imports[as] = of
	}
	p.imports[name] = imports
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					p.types[s.Name.Name] = s
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil {
				of := strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")
				p.methods[of] = append(p.methods[of], d)
			}
		}
	}
}

// line lists an identifier, and complains when what it is made of leads into an internal package.
func (p *apiPackage) line(text string, of ...ast.Node) {
	text = p.name + ": " + text
	p.lines = append(p.lines, text)
	for _, n := range of {
		if inner := p.internal(n, map[string]bool{}); inner != "" {
			p.internals = append(p.internals, text+" has "+inner)
		}
	}
}

// internal is a name of an internal package that a type leads to, or empty: by itself, or by a type of its own package which is
// not exported, through fields and methods that are.
func (p *apiPackage) internal(n ast.Node, seen map[string]bool) (inner string) {
	if n == nil {
		return ""
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // not its name
			inner = cmp.Or(inner, p.internal(n.Type, seen))
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				of := p.imports[p.fset.Position(n.Pos()).Filename][x.Name]
				if slices.Contains(strings.Split(of, "/"), "internal") {
					inner = cmp.Or(inner, of+"."+n.Sel.Name)
				}
			}
			return false
		case *ast.Ident:
			if t := p.types[n.Name]; t != nil && !n.IsExported() && !seen[n.Name] {
				seen[n.Name] = true
				inner = cmp.Or(inner, p.behind(t, seen))
			}
		}
		return inner == ""
	})
	return inner
}

// behind is internal for what can be reached through a type that is not exported.
func (p *apiPackage) behind(t *ast.TypeSpec, seen map[string]bool) (inner string) {
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		inner = p.internal(t.Type, seen)
	} else {
		inner = p.fields(s, seen)
	}
	for _, m := range p.methods[t.Name.Name] {
		if m.Name.IsExported() {
			inner = cmp.Or(inner, p.internal(m.Type, seen))
		}
	}
	return inner
}

// fields is internal for the fields of a struct that are exported, and for what it embeds, which hands on its own.
func (p *apiPackage) fields(s *ast.StructType, seen map[string]bool) (inner string) {
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			inner = cmp.Or(inner, p.internal(f.Type, seen))
		}
	}
	return inner
}

func (p *apiPackage) values(values []*doc.Value) {
	for _, v := range values {
		var typ ast.Expr // a constant without a value has the type of the one before
		for _, s := range v.Decl.Specs {
			s := s.(*ast.ValueSpec)
			if s.Type != nil || len(s.Values) > 0 {
				typ = s.Type
			}
			for i, n := range s.Names {
				if !n.IsExported() {
					continue
				}
				text, of := v.Decl.Tok.String()+" "+n.Name, []ast.Node{typ}
				var value ast.Expr
				if i < len(s.Values) {
					value = s.Values[i]
				}
				switch {
				case typ != nil:
					text += " " + types.ExprString(typ)
				case isError(value):
					text += " error"
				case value != nil:
					of = []ast.Node{value}
				}
				if lit, ok := value.(*ast.BasicLit); ok && v.Decl.Tok == token.CONST {
					text += " = " + lit.Value
				}
				p.line(text, of...)
			}
		}
	}
}

// isError reports whether a value is made by the functions that make sentinels.
func isError(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	return ok && slices.Contains([]string{"errors.New", "fmt.Errorf"}, types.ExprString(call.Fun))
}

func (p *apiPackage) funcs(funcs []*doc.Func) {
	for _, f := range funcs {
		text := "func "
		if f.Decl.Recv != nil {
			text += "(" + types.ExprString(f.Decl.Recv.List[0].Type) + ") "
		}
		p.line(text+f.Name+signature(f.Decl.Type), f.Decl.Type)
	}
}

func (p *apiPackage) typ(t *doc.Type) {
	p.values(t.Consts)
	p.values(t.Vars)
	p.funcs(t.Funcs)
	p.funcs(t.Methods)
	spec := t.Decl.Specs[0].(*ast.TypeSpec)
	name := "type " + t.Name
	if spec.TypeParams != nil {
		name += typeParams(spec.TypeParams)
	}
	switch of := spec.Type.(type) {
	case *ast.StructType:
		p.line(name + " struct")
		if inner := p.fields(p.types[t.Name].Type.(*ast.StructType), map[string]bool{}); inner != "" {
			p.internals = append(p.internals, p.name+": "+name+" has "+inner)
		}
		for _, f := range of.Fields.List {
			for _, n := range f.Names {
				p.line(name+", field "+n.Name+" "+types.ExprString(f.Type), f.Type)
			}
			if len(f.Names) == 0 {
				p.line(name+", embeds "+types.ExprString(f.Type), f.Type)
			}
		}
	case *ast.InterfaceType:
		text := name + " interface"
		if of.Incomplete {
			text += " of this package" // nobody else can implement it
		}
		p.line(text)
		for _, m := range of.Methods.List {
			if f, ok := m.Type.(*ast.FuncType); ok {
				p.line(name+", method "+m.Names[0].Name+signature(f), f)
			} else {
				p.line(name+", embeds "+types.ExprString(m.Type), m.Type)
			}
		}
	default:
		if spec.Assign.IsValid() {
			name += " ="
		}
		p.line(name+" "+types.ExprString(of), of)
	}
}

// signature is a function's types, without the names of its parameters, which may change.
func signature(f *ast.FuncType) string {
	text := "(" + list(f.Params) + ")"
	if f.TypeParams != nil {
		text = typeParams(f.TypeParams) + text
	}
	switch results := list(f.Results); {
	case results == "":
	case f.Results.NumFields() > 1:
		text += " (" + results + ")"
	default:
		text += " " + results
	}
	return text
}

func typeParams(fields *ast.FieldList) string {
	var all []string
	for _, f := range fields.List {
		for _, n := range f.Names {
			all = append(all, n.Name+" "+types.ExprString(f.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// list is the types of all fields.
func list(fields *ast.FieldList) string {
	var all []string
	if fields != nil {
		for _, f := range fields.List {
			for range max(1, len(f.Names)) {
				all = append(all, types.ExprString(f.Type))
			}
		}
	}
	return strings.Join(all, ", ")
}
