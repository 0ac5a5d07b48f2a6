/** The site's generator, Material for MkDocs, in a virtual environment of its own, and what it is told. */
import path from 'node:path'
import { stringify } from 'yaml'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { pythonEnvironment } from '../../ops/python/environment.ts'
import type { EnvironmentSpec, PythonResult } from '../../ops/python/environment-spec.ts'
import type { Section } from './pages.ts'

const SPEC: EnvironmentSpec = {
  name: 'docs-env',
  lock_file: path.join(import.meta.dirname, 'requirements.txt'),
  download: "the documentation's generator (mkdocs-material), 20 MB to download and 160 MB on disk",
  installer: 'pip',
}

export function docsEnvironment(): Promise<PythonResult> {
  return pythonEnvironment(SPEC, { cache_folder: switchyardCacheFolder() })
}

/** In the site's source. */
export const STYLE_FILE = 'assets/site.css'
/** Wide tables get the width of the screen, and names of settings in them are not cut in the middle. */
export const STYLE = `.md-grid { max-width: 80rem; }
.md-typeset td code, .md-typeset th code { word-break: normal; overflow-wrap: anywhere; }
.md-typeset img { max-width: 100%; }
`

/** `titles`: of each page. Nothing is loaded from elsewhere, so the site and its search work without a network. */
export function mkdocsConfig(sections: readonly Section[], titles: ReadonlyMap<string, string>): string {
  const nav = sections.map(({ title, pages }) => ({
    [title]: pages.map((page) => ({ [titles.get(page) ?? page]: page })),
  }))
  const config = {
    site_name: 'Switchyard',
    docs_dir: 'source',
    site_dir: 'site',
    use_directory_urls: false,
    theme: {
      name: 'material',
      font: false,
      features: ['navigation.tabs', 'navigation.top', 'search.highlight', 'content.code.copy', 'toc.integrate'],
      palette: [
        { media: '(prefers-color-scheme: light)', scheme: 'default' },
        { media: '(prefers-color-scheme: dark)', scheme: 'slate' },
      ],
    },
    extra_css: [STYLE_FILE],
    plugins: ['search'],
    validation: { nav: { omitted_files: 'warn' }, links: { not_found: 'warn', anchors: 'warn' } },
    nav: [...nav, { Evaluation: 'docs/evaluation/index.html' }],
  }
  // A function of Python, which YAML of MkDocs names by a tag.
  const extensions = `markdown_extensions:
  - tables
  - attr_list
  - pymdownx.superfences
  - pymdownx.highlight
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify
        kwds: { case: lower }
`
  return `${stringify(config)}${extensions}`
}
