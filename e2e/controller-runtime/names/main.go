// Prints the exported names of packages of client-go and controller-runtime: package, kind and name, separated by tabs.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// Each module with the packages whose names are printed.
var modules = map[string][]string{
	"k8s.io/client-go": {
		"dynamic/dynamicinformer", "informers", "metadata/metadatainformer", "tools/cache", "tools/events",
		"tools/leaderelection", "tools/leaderelection/resourcelock", "util/workqueue",
	},
	"sigs.k8s.io/controller-runtime": {
		"pkg/builder", "pkg/cache", "pkg/client", "pkg/client/fake", "pkg/controller", "pkg/controller/controllerutil",
		"pkg/envtest", "pkg/handler", "pkg/manager", "pkg/predicate", "pkg/reconcile", "pkg/source",
	},
}

func main() {
	var lines []string
	for module, packages := range modules {
		output, err := exec.Command("go", "mod", "download", "-json", module).Output()
		if err != nil {
			fail(module, err)
		}
		var downloaded struct{ Dir string }
		if err := json.Unmarshal(output, &downloaded); err != nil {
			fail(module, err)
		}
		for _, path := range packages {
			names, err := exported(filepath.Join(downloaded.Dir, path), module+"/"+path)
			if err != nil {
				fail(path, err)
			}
			for _, name := range names {
				lines = append(lines, module+"/"+path+"\t"+name)
			}
		}
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

func fail(what string, err error) {
	fmt.Fprintln(os.Stderr, what+":", err)
	os.Exit(1)
}

// Returns kind and name of all exported names of a package.
func exported(folder, path string) ([]string, error) {
	files := token.NewFileSet()
	isSource := func(file os.FileInfo) bool { return !strings.HasSuffix(file.Name(), "_test.go") }
	parsed, err := parser.ParseDir(files, folder, isSource, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	// Without types, so files for other systems are read, too.
	all := map[string]bool{}
	for name, parts := range parsed {
		if name == "main" {
			continue
		}
		documentation := doc.New(parts, path, 0)
		add(all, "const", values(documentation.Consts)...)
		add(all, "var", values(documentation.Vars)...)
		add(all, "func", functions(documentation.Funcs)...)
		for _, named := range documentation.Types {
			add(all, "type", named.Name)
			add(all, "const", values(named.Consts)...)
			add(all, "var", values(named.Vars)...)
			add(all, "func", functions(named.Funcs)...)
			for _, method := range functions(named.Methods) {
				add(all, "method", named.Name+"."+method)
			}
			members(all, named)
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	return names, nil
}

func add(all map[string]bool, kind string, names ...string) {
	for _, name := range names {
		if ast.IsExported(name) {
			all[kind+"\t"+name] = true
		}
	}
}

func values(values []*doc.Value) []string {
	var names []string
	for _, value := range values {
		names = append(names, value.Names...)
	}
	return names
}

func functions(functions []*doc.Func) []string {
	var names []string
	for _, function := range functions {
		names = append(names, function.Name)
	}
	return names
}

// Adds the fields of a struct and the methods of an interface, without embedded ones.
func members(all map[string]bool, named *doc.Type) {
	for _, spec := range named.Decl.Specs {
		var kind string
		var list *ast.FieldList
		switch declared := spec.(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			kind, list = "field", declared.Fields
		case *ast.InterfaceType:
			kind, list = "method", declared.Methods
		default:
			continue
		}
		for _, member := range list.List {
			for _, name := range member.Names {
				if name.IsExported() {
					add(all, kind, named.Name+"."+name.Name)
				}
			}
		}
	}
}
