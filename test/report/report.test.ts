import { describe, expect, test } from 'vitest';
import { linearAxis, spreadApart } from '../../src/report/charts/axis.ts';
import { compareStages, headlineOf } from '../../src/report/comparison.ts';
import { escapeHtml, html } from '../../src/report/html.ts';
import { renderReport } from '../../src/report/render.ts';
import { classScores } from '../../src/report/sections/class-table.ts';
import { mistakes } from '../../src/report/sections/confusion.ts';
import { exampleReport } from './example.ts';

const VOID = new Set(['meta', 'img', 'link', 'br', 'hr', 'input']);

/** Names of the elements of a page; throws where a tag is not closed in order or an attribute is not quoted. */
function elementsOf(page: string): string[] {
  const open: string[] = [];
  const seen: string[] = [];
  let rest = page.replace(/^<!doctype html>/, '');
  while (rest !== '') {
    const text = /^[^<>]+/.exec(rest);
    if (text !== null) {
      rest = rest.slice(text[0].length);
      continue;
    }
    const tag = /^<(\/?)([a-z][a-z0-9]*)((?:\s+[a-zA-Z][a-zA-Z0-9-]*="[^"<>]*")*)\s*(\/?)>/.exec(rest);
    if (tag === null) throw new Error(`no tag at: ${rest.slice(0, 80)}`);
    const [whole, closing, name, , self] = tag;
    rest = rest.slice(whole.length);
    if (closing === '/') {
      const expected = open.pop();
      if (expected !== name) throw new Error(`expected </${expected}>, got </${name}>`);
      continue;
    }
    seen.push(name!);
    if (self === '' && !VOID.has(name!)) open.push(name!);
    if (name === 'style') {
      const end = rest.indexOf('</style>');
      rest = rest.slice(end);
    }
  }
  if (open.length > 0) throw new Error(`not closed: ${open.join(', ')}`);
  return seen;
}

describe('renderReport', () => {
  test('is a well-formed page with a section for everything', () => {
    const page = renderReport(exampleReport());
    const elements = elementsOf(page);
    expect(elements.filter((name) => name === 'h1')).toHaveLength(1);
    for (const id of ['models', 'errors', 'calibration', 'samples', 'training', 'setup']) {
      expect(page).toContain(`<section id="${id}">`);
      expect(page).toContain(`href="#${id}"`);
    }
    // Three stages: loss, accuracy and rate of each, and one reliability diagram.
    expect(elements.filter((name) => name === 'svg')).toHaveLength(12);
    expect(elements.filter((name) => name === 'img')).toHaveLength(18);
  });

  test('needs nothing but itself: no script, no request', () => {
    const page = renderReport(exampleReport());
    expect(elementsOf(page)).not.toContain('script');
    expect(page).not.toMatch(/https?:\/\//);
    expect(page).not.toMatch(/@import|url\(/);
    expect([...page.matchAll(/src="([^"]{0,22})/g)].every(([, source]) => source === 'data:image/png;base64,')).toBe(
      true,
    );
  });

  test('says the result first: the gain over the baseline, compared in pairs', () => {
    const data = exampleReport();
    const { row, baseline, teacher } = headlineOf(compareStages(data.result));
    expect([row.result.stage, baseline?.result.stage, teacher?.result.stage]).toEqual(['student', 'alone', 'teacher']);
    const exact = row.accuracy - baseline!.accuracy;
    expect(row.gain!.difference).toBeCloseTo(exact, 12);
    const page = renderReport(data);
    expect(page).toContain(`<h1 class="figure">+${(exact * 100).toFixed(1)} <span>points</span></h1>`);
    expect(page.indexOf('<h1')).toBeLessThan(page.indexOf('<table'));
  });

  test('says so where the difference may be chance', () => {
    const data = exampleReport();
    const alone = data.result.stages[1]!;
    const same = {
      ...data,
      result: {
        ...data.result,
        stages: [data.result.stages[0]!, alone, { ...alone, stage: 'student', teachers: ['teacher'] }],
      },
    };
    expect(renderReport(same)).toContain('the difference may be chance');
    expect(renderReport(data)).not.toContain('the difference may be chance');
  });

  test('escapes every text from outside', () => {
    const evil = `<script>alert("x")</script>' & "`;
    const data = exampleReport([evil, 'b', 'c']);
    const stages = data.result.stages.map((stage) => ({
      ...stage,
      stage: `${stage.stage}${evil}`,
      architecture: evil,
      teachers: stage.teachers.map((name) => `${name}${evil}`),
    }));
    const page = renderReport({
      ...data,
      result: {
        ...data.result,
        name: evil,
        stages,
        baseline: `alone${evil}`,
        samples: data.result.samples.map((sample) => ({ ...sample, id: evil })),
        environment: { [evil]: evil },
      },
      history: data.history.map((stage) => ({
        ...stage,
        stage: evil,
        epochCurves: stage.epochCurves.map((curve) => ({ ...curve, name: `train/${evil}` })),
        phases: [[{ group: evil, parameters: 1, trainable: true, rate: 1, decay: 0, mode: 'train' as const }]],
      })),
      warnings: [{ code: evil, message: evil }],
      recipe: evil,
    });
    expect(elementsOf(page)).not.toContain('script');
    expect(page).not.toContain('<script');
  });

  test('takes a run without baseline, teacher, samples or history', () => {
    const { result, ...rest } = exampleReport();
    const [first] = result.stages;
    const { baseline: _, ...bare } = result;
    const page = renderReport({
      ...rest,
      history: [],
      warnings: [],
      result: { ...bare, stages: [{ ...first!, metrics: { top1: 0.5 } }], samples: [] },
    });
    elementsOf(page);
    expect(page).toContain('<h1 class="figure">50.0 % <span>accuracy</span></h1>');
    expect(page).not.toContain('NaN');
  });

  test('leaves the matrix of very many classes out and folds the table', () => {
    const labels = Array.from({ length: 60 }, (_, i) => `class ${i}`);
    const page = renderReport(exampleReport(labels));
    elementsOf(page);
    expect(page).not.toContain('class="heat');
    expect(page).toContain('Scores of all 60 classes');
  });

  test('refuses a result without stages or accuracy', () => {
    const data = exampleReport();
    const [first] = data.result.stages;
    expect(() => renderReport({ ...data, result: { ...data.result, stages: [] } })).toThrow(
      /at least one finished stage/,
    );
    expect(() =>
      renderReport({ ...data, result: { ...data.result, stages: [{ ...first!, metrics: { loss: 1 } }] } }),
    ).toThrow(/expected the metric top1/);
  });
});

describe('html', () => {
  test('escapes values in text and attributes, takes pieces as they are', () => {
    expect(
      html`<p title="${`"'<`}">${'<b>'}${html`<i>${1}</i>`}${[html`<u></u>`, '&']}${false}${undefined}</p>`.text,
    ).toBe('<p title="&quot;&#39;&lt;">&lt;b&gt;<i>1</i><u></u>&amp;</p>');
    expect(escapeHtml('a\u0000b\u001bc\n')).toBe('a\ufffdb\ufffdc\n');
  });
});

describe('axis', () => {
  test('ends at round values and holds all data', () => {
    for (const values of [[0.3, 2.41], [0.881, 0.894], [1e-7, 5e-7], [-3, 12_345], [5], []]) {
      const axis = linearAxis(values, [0, 100]);
      expect(axis.high).toBeGreaterThan(axis.low);
      for (const value of values) {
        expect(axis.at(value)).toBeGreaterThanOrEqual(-1e-9);
        expect(axis.at(value)).toBeLessThanOrEqual(100 + 1e-9);
      }
      expect(axis.ticks.length).toBeGreaterThanOrEqual(2);
      expect(axis.ticks.length).toBeLessThanOrEqual(7);
    }
    expect(linearAxis([0.62, 0.99], [0, 1], { most: 1 }).ticks).toEqual([0.6, 0.7, 0.8, 0.9, 1]);
    expect(linearAxis([1, 3], [0, 1], { whole: true }).ticks).toEqual([1, 2, 3]);
  });

  test('labels are moved apart, in order, within bounds', () => {
    const placed = spreadApart([50, 51, 49, 175], 14, 0, 176);
    const sorted = [...placed].sort((a, b) => a - b);
    for (let i = 1; i < sorted.length; i++) expect(sorted[i]! - sorted[i - 1]!).toBeGreaterThanOrEqual(14);
    expect(placed[2]).toBeLessThan(placed[0]!);
    expect(placed[0]).toBeLessThan(placed[1]!);
    expect(Math.max(...spreadApart([170, 171, 172], 14, 0, 176))).toBeLessThanOrEqual(176);
  });
});

describe('class scores', () => {
  test('are those of the definitions', () => {
    const scores = classScores([
      [8, 2, 0],
      [1, 4, 0],
      [0, 0, 0],
    ]);
    expect(scores[0]).toEqual({ items: 10, precision: 8 / 9, recall: 0.8, f1: 16 / 19 });
    expect(scores[1]).toEqual({ items: 5, precision: 4 / 6, recall: 0.8, f1: 8 / 11 });
    expect([scores[2]!.precision, scores[2]!.recall, scores[2]!.f1]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
    expect(
      mistakes([
        [8, 2],
        [1, 4],
      ]).map(({ truth, predicted, count }) => [truth, predicted, count]),
    ).toEqual([
      [0, 1, 2],
      [1, 0, 1],
    ]);
  });
});
